//! Find a name among many: the hash table under the tensor table.

use std::hash::BuildHasher;
use std::hash::RandomState;

/// Places of names by a hash of the name. The names themselves are kept elsewhere.
#[derive(Debug)]
pub(crate) struct Names {
    /// Open addressing, at most half full. 0 is free, else the hash above 1 + the place.
    slots: Vec<u64>,
    count: usize,
    /// Random, so that nobody can make a file whose names all meet in one slot.
    keys: [u64; 2],
}

impl Names {
    /// A table with room for about `count` names.
    pub(crate) fn with_room(count: usize) -> Self {
        let random = RandomState::new();
        let slots = vec![0; (count.saturating_mul(2)).next_power_of_two().max(16)];
        Self { slots, count: 0, keys: [random.hash_one(0), random.hash_one(1)] }
    }

    /// The place of the name; `is_at` says whether it is the one at a place.
    pub(crate) fn find(&self, name: &str, is_at: impl Fn(usize) -> bool) -> Option<usize> {
        self.search(self.hash(name), is_at).ok()
    }

    /// Note that `name` stands at `place`; false where [`Self::find`] would find it already.
    ///
    /// Searches and adds in one go.
    pub(crate) fn insert(
        &mut self,
        name: &str,
        place: usize,
        is_at: impl Fn(usize) -> bool,
    ) -> bool {
        if (self.count + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let hash = self.hash(name);
        let (Err(free), Ok(place)) = (self.search(hash, is_at), u32::try_from(place)) else {
            return false;
        };
        self.slots[free] = u64::from(hash) << 32 | (u64::from(place) + 1);
        self.count += 1;
        true
    }

    /// The place, or else the slot where the search ended.
    fn search(&self, hash: u32, is_at: impl Fn(usize) -> bool) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Err(at);
            }
            let place = (slot & u64::from(u32::MAX)) as usize - 1;
            if slot >> 32 == u64::from(hash) && is_at(place) {
                return Ok(place);
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![0; old.len() * 2];
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            // All names differ already.
            if let Err(free) = self.search((slot >> 32) as u32, |_| false) {
                self.slots[free] = slot;
            }
        }
    }

    /// Sixteen bytes a multiplication, in the manner of wyhash: the names of a large model are
    /// hashed at every opening, and `SipHash` took a third of that time.
    fn hash(&self, name: &str) -> u32 {
        let bytes = name.as_bytes();
        let [first, second] = self.keys;
        let mut hash = first ^ bytes.len() as u64;
        let (chunks, rest) = bytes.as_chunks::<16>();
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        for chunk in chunks.iter().chain([&last]) {
            let halves = u128::from_le_bytes(*chunk);
            hash = fold(hash ^ halves as u64, second ^ (halves >> 64) as u64);
        }
        let mixed = fold(hash ^ second, first | 1);
        (mixed >> 32) as u32 ^ mixed as u32
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_at_its_place_while_the_table_grows() {
        let all: Vec<String> = (0..1000).map(|nth| format!("layers.{nth}.weight")).collect();
        for room in [0, 1, 500, 1000] {
            let mut names = Names::with_room(room);
            for (place, name) in all.iter().enumerate() {
                assert!(names.insert(name, place, |at| all[at] == *name));
            }
            for (place, name) in all.iter().enumerate() {
                assert_eq!(names.find(name, |at| all[at] == *name), Some(place));
                assert!(!names.insert(name, place, |at| all[at] == *name));
            }
            assert_eq!(names.find("another", |at| all[at] == "another"), None);
        }
    }

    #[test]
    fn names_of_any_length_spread() {
        let names = Names::with_room(0);
        let mut hashes: Vec<u32> = (0..200).map(|len| names.hash(&"a".repeat(len))).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 200);
    }

    #[test]
    fn two_tables_hash_differently() {
        assert_ne!(Names::with_room(0).hash("a"), Names::with_room(0).hash("a"));
    }
}
