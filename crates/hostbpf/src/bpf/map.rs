//! BPF map, accessed from user space.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::{Attributes, INFO_BY_FD, MAP_BY_ID, MAP_CREATE, MAP_LOOKUP, MAP_NEXT_KEY, MAP_UPDATE, named};

/// Kind of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Array, by index.
    Array = 2,
    /// Hash map by key that evicts the least recently used entry when full.
    Lru = 9,
}

/// An open map.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
    entries: u32,
}

/// Bytes of a map's info that are requested, and the offset of its name.
const INFO_LEN: usize = 40;
const INFO_NAME: usize = 24;

/// Maps with a value per processor: `BPF_MAP_TYPE_PERCPU_HASH`, `_PERCPU_ARRAY`, `_LRU_PERCPU_HASH` and
/// `_PERCPU_CGROUP_STORAGE`. The kernel reads and writes one value per possible processor.
const PER_PROCESSOR: [u32; 4] = [5, 6, 10, 21];

/// Number of possible processors: the kernel's copies of a value.
fn processors() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    possible(&text).ok_or_else(|| io::Error::other(format!("possible processors: {text:?}")))
}

/// Number of processors in a list such as `0-3,8`.
fn possible(text: &str) -> Option<usize> {
    text.trim().split(',').try_fold(0, |count, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(count + last.checked_sub(first)? + 1)
    })
}

impl Map {
    /// A map of at most `entries`, from keys of `key` bytes to values of `value` bytes.
    pub fn new(kind: MapKind, name: &str, [key, value]: [usize; 2], entries: u32) -> io::Result<Self> {
        let attributes = Attributes::new()
            .u32(0, kind as u32)
            .u32(4, key as u32)
            .u32(8, value as u32)
            .u32(12, entries)
            .with(28, named(name));
        // SAFETY: no pointers.
        let fd = unsafe { attributes.open(MAP_CREATE)? };
        Ok(Self { fd, key, value, entries })
    }

    /// The map with this ID, and its name.
    pub fn with_id(id: u32) -> io::Result<(Self, String)> {
        // SAFETY: no pointers.
        let fd = unsafe { Attributes::new().u32(0, id).open(MAP_BY_ID)? };
        Self::with_fd(fd)
    }

    /// The map of descriptor `fd`, and its name.
    pub fn with_fd(fd: OwnedFd) -> io::Result<(Self, String)> {
        let mut info = [0_u8; INFO_LEN];
        let mut attributes =
            Attributes::new().fd(0, &fd).u32(4, INFO_LEN as u32).pointer(8, info.as_mut_ptr().cast_const());
        // SAFETY: the kernel writes at most `INFO_LEN` bytes.
        unsafe { attributes.call(INFO_BY_FD)? };
        let word = |at: usize| u32::from_ne_bytes(*info[at..].first_chunk().expect("within the info"));
        let name = info[INFO_NAME..].split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let value = match PER_PROCESSOR.contains(&word(0)) {
            // One value per processor, padded, consecutive.
            true => (word(12) as usize).next_multiple_of(8) * processors()?,
            false => word(12) as usize,
        };
        Ok((Self { fd, key: word(8) as usize, value, entries: word(16) }, name))
    }

    /// Descriptor, for a program that refers to it.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Value at `key`, if there is one.
    ///
    /// # Panics
    /// `key` does not have the map's key length.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        assert_eq!(key.len(), self.key, "a key of this map");
        let mut value = vec![0; self.value];
        let mut attributes = Attributes::new()
            .fd(0, &self.fd)
            .pointer(8, key.as_ptr())
            .pointer(16, value.as_mut_ptr().cast_const());
        // SAFETY: key and value are as long as the map's.
        match unsafe { attributes.call(MAP_LOOKUP) } {
            Ok(_) => Ok(Some(value)),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Bytes of a value, for all processors together.
    pub fn value_len(&self) -> usize {
        self.value
    }

    /// Stores `value` at `key`.
    ///
    /// # Panics
    /// `key` or `value` does not have the map's length.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.key, self.value), "key and value of this map");
        let mut attributes =
            Attributes::new().fd(0, &self.fd).pointer(8, key.as_ptr()).pointer(16, value.as_ptr());
        // SAFETY: key and value are as long as the map's.
        unsafe { attributes.call(MAP_UPDATE) }.map(drop)
    }

    /// All values. Not a snapshot: others write meanwhile, and an entry seen twice is counted twice.
    pub fn values(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut values = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        for _ in 0..self.entries {
            let mut next = vec![0_u8; self.key];
            let mut attributes =
                Attributes::new().fd(0, &self.fd).pointer(16, next.as_mut_ptr().cast_const());
            if let Some(last) = &last {
                attributes = attributes.pointer(8, last.as_ptr());
            }
            // SAFETY: both keys are as long as the map's.
            match unsafe { attributes.call(MAP_NEXT_KEY) } {
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => break,
                Err(e) => return Err(e),
            }
            values.extend(self.get(&next)?);
            last = Some(next);
        }
        Ok(values)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_in_lists_with_gaps() {
        for (text, count) in [("0\n", 1), ("0-3\n", 4), ("0-3,8-11\n", 8), ("0,2,4-5", 4)] {
            assert_eq!(possible(text), Some(count), "{text:?}");
        }
        for text in ["", "\n", "a", "3-1", "0-", "0,,1"] {
            assert_eq!(possible(text), None, "{text:?}");
        }
    }

    //~ programs: a value of a per-CPU BPF map has room for every CPU
    /// It detects a kernel write beyond a value that is too small.
    #[test]
    fn a_value_has_room_for_every_processor_in_every_kind_of_map_that_has_one_for_each() {
        for (kind, per_processor) in [(1, false), (2, false), (5, true), (6, true), (9, false), (10, true)] {
            for value in [1_u32, 4, 8, 12] {
                let attributes =
                    Attributes::new().u32(0, kind).u32(4, 4).u32(8, value).u32(12, 4).with(28, named("test"));
                // SAFETY: no pointers.
                let fd = match unsafe { attributes.open(MAP_CREATE) } {
                    Ok(fd) => fd,
                    Err(why) => {
                        eprintln!("skipped: maps of kind {kind}: {why}");
                        break;
                    }
                };
                let (map, _) = Map::with_fd(fd).unwrap();
                let buffer_len = if per_processor {
                    value.next_multiple_of(8) as usize * processors().unwrap()
                } else {
                    value as usize
                };
                assert_eq!(map.value_len(), buffer_len, "kind {kind}, values of {value}");
                let (key, bytes) = (0_u32.to_ne_bytes(), vec![7; buffer_len]);
                map.set(&key, &bytes).unwrap();
                let got = map.get(&key).unwrap().expect("it was set");
                let first = |of: &[u8]| of[..value as usize].to_vec();
                assert_eq!(
                    (got.len(), first(&got)),
                    (buffer_len, first(&bytes)),
                    "kind {kind}, values of {value}"
                );
            }
        }
    }
}
