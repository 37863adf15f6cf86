//! NumPy arrays as slices, by the C struct that every array hands out.
//!
//! Not by the buffer protocol: it has no format for bfloat16, and costs more. Only exact
//! `numpy.ndarray` objects of one plain run of memory are taken; whatever else there is (strides,
//! byte orders, subclasses, other libraries) is prepared in Python.

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ops::Range;

use dmexp_core::Dtype;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyTuple, PyType};
use pyo3::{ffi, intern};

/// `PyArrayInterface` of NumPy's array interface protocol, version 3.
#[repr(C)]
struct Interface {
    two: c_int,
    nd: c_int,
    typekind: c_char,
    itemsize: c_int,
    flags: c_int,
    shape: *const ffi::Py_ssize_t,
    strides: *const ffi::Py_ssize_t,
    data: *mut c_void,
    descr: *mut ffi::PyObject,
}

const C_CONTIGUOUS: c_int = 0x1;
const NOT_SWAPPED: c_int = 0x200;
const WRITEABLE: c_int = 0x400;

/// What is used of NumPy and `ml_dtypes`, looked up once.
struct Numpy {
    ndarray: Py<PyType>,
    empty: Py<PyAny>,
    float32: Py<PyAny>,
    float16: Py<PyAny>,
    bfloat16: Py<PyAny>,
}

impl Numpy {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();
        NUMPY.get_or_try_init(py, || {
            let numpy = py.import("numpy")?;
            let dtype = numpy.getattr("dtype")?;
            let bfloat16 = py.import("ml_dtypes")?.getattr("bfloat16")?;
            Ok(Self {
                ndarray: numpy.getattr("ndarray")?.cast_into::<PyType>()?.unbind(),
                empty: numpy.getattr("empty")?.unbind(),
                float32: dtype.call1(("f4",))?.unbind(),
                float16: dtype.call1(("f2",))?.unbind(),
                bfloat16: dtype.call1((bfloat16,))?.unbind(),
            })
        })
    }
}

/// A C-contiguous array of floats in little-endian order.
pub struct Array<'py> {
    object: Bound<'py, PyAny>,
    dtype: Dtype,
    interface: *const Interface,
    /// Owns `interface`, and holds a reference to the array.
    _capsule: Bound<'py, PyAny>,
}

impl<'py> Array<'py> {
    /// The array `object`, or None where it is anything that needs preparing.
    pub fn get(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        let numpy = Numpy::get(py)?;
        if cfg!(target_endian = "big") || !object.get_type().is(&numpy.ndarray) {
            return Ok(None);
        }
        let capsule = object.getattr(intern!(py, "__array_struct__"))?;
        let interface = capsule.cast::<PyCapsule>()?.pointer_checked(None)?;
        let interface: *const Interface = interface.cast().as_ptr();
        // SAFETY: the type is exactly NumPy's, so this capsule comes from NumPy and holds this
        // struct for as long as the capsule lives, which is as long as `self`.
        let header = unsafe { &*interface };
        if header.two != 2
            || header.flags & (C_CONTIGUOUS | NOT_SWAPPED) != C_CONTIGUOUS | NOT_SWAPPED
        {
            return Ok(None);
        }
        let dtype = match (header.typekind as u8, header.itemsize) {
            (b'f', 2) => Dtype::F16,
            (b'f', 4) => Dtype::F32,
            (b'f', 8) => Dtype::F64,
            // bfloat16 looks like any two-byte void here.
            (b'V', 2) if object.getattr(intern!(py, "dtype"))?.is(&numpy.bfloat16) => Dtype::Bf16,
            _ => return Ok(None),
        };
        Ok(Some(Self { object: object.clone(), dtype, interface, _capsule: capsule }))
    }

    /// A new array of the same shape, its values undefined.
    ///
    /// Allocated by NumPy, which asks for huge pages.
    pub fn empty_like(&self, dtype: Dtype) -> PyResult<Self> {
        let py = self.object.py();
        let numpy = Numpy::get(py)?;
        let dtype = match dtype {
            Dtype::F32 => &numpy.float32,
            Dtype::F16 => &numpy.float16,
            Dtype::Bf16 => &numpy.bfloat16,
            Dtype::F64 => return Err(PyValueError::new_err("f64 is not stored")),
        };
        let empty = numpy.empty.bind(py);
        let object = match self.dims() {
            [len] => empty.call1((*len, dtype))?,
            dims => empty.call1((PyTuple::new(py, dims)?, dtype))?,
        };
        Self::get(&object)?.ok_or_else(|| PyValueError::new_err("numpy.empty gave another array"))
    }

    fn header(&self) -> &Interface {
        // SAFETY: as in `get`.
        unsafe { &*self.interface }
    }

    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub fn dims(&self) -> &[ffi::Py_ssize_t] {
        let header = self.header();
        let nd = usize::try_from(header.nd).unwrap_or(0);
        if nd == 0 {
            return &[];
        }
        // SAFETY: `shape` has `nd` entries for as long as the capsule lives.
        unsafe { std::slice::from_raw_parts(header.shape, nd) }
    }

    pub fn is_writeable(&self) -> bool {
        self.header().flags & WRITEABLE != 0
    }

    fn len_bytes(&self) -> usize {
        // NumPy does not make arrays whose size does not fit.
        let count: usize =
            self.dims().iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).product();
        count * self.dtype.width()
    }

    fn addresses(&self) -> Range<usize> {
        let start = self.header().data as usize;
        start..start + self.len_bytes()
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.addresses(), other.addresses());
        mine.start < theirs.end && theirs.start < mine.end
    }

    /// The values, to be read.
    pub fn bytes(&self) -> Slice<'_> {
        Slice { start: self.header().data.cast(), len: self.len_bytes(), array: PhantomData }
    }

    pub fn into_object(self) -> Bound<'py, PyAny> {
        self.object
    }
}

/// The memory of an array, which may be worked on detached from the interpreter.
#[derive(Clone, Copy)]
pub struct Slice<'a> {
    start: *mut u8,
    len: usize,
    array: PhantomData<&'a ()>,
}

// SAFETY: an address and a length; whoever makes a slice of them answers for threads.
unsafe impl Send for Slice<'_> {}

impl<'a> Slice<'a> {
    pub fn len(self) -> usize {
        self.len
    }

    /// The bytes, to be read.
    ///
    /// # Safety
    ///
    /// No other slice of this memory is written to while this one lives.
    pub unsafe fn read(self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: NumPy keeps `len` bytes there while the array lives, which the `Array` that this
        // is borrowed from sees to; C-contiguous was checked, so they are one run. Hazards that
        // remain are those of every NumPy function that lets other threads run: a thread that
        // writes to the array makes the values unspecified (the kernels rely on no value that they
        // have read before), and `ndarray.resize(refcheck=False)` is the caller's own doing.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The bytes, to be written.
    ///
    /// # Safety
    ///
    /// The array is writeable, and no other slice of this memory lives.
    pub unsafe fn write(self) -> &'a mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: as in `read`; what the memory of a new array holds is any value of u8 or other.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}
