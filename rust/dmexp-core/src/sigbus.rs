//! Keep the process alive when a mapped file shrinks underneath it.
//!
//! Touching a page beyond the new end of a mapped file raises SIGBUS, whose default is death. The
//! handler here replaces the lost pages of *our* mappings by zeros, remembers that it did, tells
//! the embedder through a hook, and lets the access continue. Every check that follows then fails
//! with an ordinary error. Signals for any other address go to whoever handled them before.
//!
//! On systems without SIGBUS (Windows refuses to shrink a mapped file) all this is empty.

#[cfg(unix)]
pub use imp::{Guard, lost, quietly, set_hook};

#[cfg(unix)]
mod imp {
    use std::cell::Cell;
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

    /// One guarded address range. Slots are never freed: the handler walks them without a lock.
    #[derive(Debug)]
    struct Slot {
        taken: AtomicBool,
        start: AtomicUsize,
        end: AtomicUsize,
        hit: AtomicBool,
        next: AtomicPtr<Slot>,
    }

    static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
    static HOOK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
    static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
    static LOST: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        // Constant and without a destructor: the handler may look at it at any time.
        static QUIET: Cell<bool> = const { Cell::new(false) };
    }

    /// Watches one mapping for as long as it lives.
    #[derive(Debug)]
    pub struct Guard(&'static Slot);

    impl Guard {
        /// Watch `len` bytes from `start`. `None` where the handler could not be installed.
        pub fn new(start: usize, len: usize) -> Option<Self> {
            if !install() {
                return None;
            }
            let slot = claim();
            slot.hit.store(false, Ordering::Relaxed);
            slot.end.store(start.checked_add(len)?, Ordering::Relaxed);
            // Last, since a slot counts from the moment that its start is set.
            slot.start.store(start, Ordering::Release);
            Some(Self(slot))
        }

        /// Whether a page of this mapping was lost.
        pub fn was_hit(&self) -> bool {
            self.0.hit.load(Ordering::Acquire)
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.start.store(0, Ordering::Release);
            self.0.end.store(0, Ordering::Relaxed);
            self.0.taken.store(false, Ordering::Release);
        }
    }

    /// Call `hook` from the signal handler each time that a page was lost. It runs in signal
    /// context: it may set flags, and must not allocate or lock.
    pub fn set_hook(hook: extern "C" fn()) {
        HOOK.store(hook as *mut (), Ordering::Release);
    }

    /// How often pages were lost in this process so far, of any mapping.
    pub fn lost() -> u64 {
        LOST.load(Ordering::Acquire)
    }

    /// Do `work` without the hook on this thread: the caller asks afterwards whether pages were
    /// lost, by [`lost`] or [`Guard::was_hit`].
    pub fn quietly<R>(work: impl FnOnce() -> R) -> R {
        let before = QUIET.replace(true);
        let result = work();
        QUIET.set(before);
        result
    }

    fn slots() -> impl Iterator<Item = &'static Slot> {
        let mut next = SLOTS.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: slots are leaked boxes, so a pointer in the list is valid for ever.
            let slot = unsafe { next.as_ref() }?;
            next = slot.next.load(Ordering::Acquire);
            Some(slot)
        })
    }

    fn claim() -> &'static Slot {
        for slot in slots() {
            if !slot.taken.swap(true, Ordering::AcqRel) {
                return slot;
            }
        }
        let slot: &'static Slot = Box::leak(Box::new(Slot {
            taken: AtomicBool::new(true),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            hit: AtomicBool::new(false),
            next: AtomicPtr::new(ptr::null_mut()),
        }));
        let mut head = SLOTS.load(Ordering::Acquire);
        loop {
            slot.next.store(head, Ordering::Relaxed);
            let new = ptr::from_ref(slot).cast_mut();
            match SLOTS.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return slot,
                Err(now) => head = now,
            }
        }
    }

    fn install() -> bool {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        *INSTALLED.get_or_init(|| {
            // SAFETY: both structures are plain data that the calls fill or read; the handler has
            // the signature that SA_SIGINFO asks for and touches nothing but atomics and mmap.
            unsafe {
                let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
                if libc::sigaction(libc::SIGBUS, ptr::null(), previous.as_mut_ptr()) != 0 {
                    return false;
                }
                let _ = PREVIOUS.set(previous.assume_init());
                let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_sigbus;
                action.sa_sigaction = handler as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) == 0
            }
        })
    }

    extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes a valid siginfo to a SA_SIGINFO handler.
        let address = unsafe { (*info).si_addr() } as usize;
        for slot in slots() {
            let start = slot.start.load(Ordering::Acquire);
            let end = slot.end.load(Ordering::Relaxed);
            if start != 0 && start <= address && address < end && replace_tail(address, end) {
                slot.hit.store(true, Ordering::Release);
                LOST.fetch_add(1, Ordering::AcqRel);
                let hook = HOOK.load(Ordering::Acquire);
                if !hook.is_null() && !QUIET.get() {
                    // SAFETY: only `set_hook` stores here, and it stores a function of this type.
                    let hook: extern "C" fn() = unsafe { std::mem::transmute(hook) };
                    hook();
                }
                return;
            }
        }
        forward(signal, info, context);
    }

    /// Put zero pages from the page of `address` up to `end`.
    fn replace_tail(address: usize, end: usize) -> bool {
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let Ok(page) = usize::try_from(page) else { return false };
        let first = address & !(page - 1);
        // SAFETY: the range lies inside a mapping that a live Guard owns, so nothing else is
        // overwritten; the owner unmaps the whole range as before.
        let got = unsafe {
            libc::mmap(
                first as *mut c_void,
                end - first,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        got != libc::MAP_FAILED
    }

    /// Do what would have been done without us.
    fn forward(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let handler = PREVIOUS.get().map_or(libc::SIG_DFL, |action| action.sa_sigaction);
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            // SAFETY: restores the default; returning then repeats the access, which ends the
            // process as it would have ended without this handler.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
            return;
        }
        let with_info = PREVIOUS.get().is_some_and(|a| a.sa_flags & libc::SA_SIGINFO != 0);
        // SAFETY: the address is a handler that somebody registered with the signature that its
        // own SA_SIGINFO flag states.
        unsafe {
            if with_info {
                let call: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                call(signal, info, context);
            } else {
                let call: extern "C" fn(c_int) = std::mem::transmute(handler);
                call(signal);
            }
        }
    }
}

#[cfg(not(unix))]
mod imp_none {
    /// Nothing to watch on this system.
    #[derive(Debug)]
    pub struct Guard;

    impl Guard {
        /// Always `None`.
        pub fn new(_start: usize, _len: usize) -> Option<Self> {
            None
        }

        /// Always false.
        pub fn was_hit(&self) -> bool {
            false
        }
    }

    /// Does nothing.
    pub fn set_hook(_hook: extern "C" fn()) {}

    /// Always 0.
    pub fn lost() -> u64 {
        0
    }

    /// Does `work`.
    pub fn quietly<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
}
#[cfg(not(unix))]
pub use imp_none::{Guard, lost, quietly, set_hook};
