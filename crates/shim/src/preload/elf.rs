//! Program headers of an ELF file.
//!
//! Reads 64-bit files in the host's byte order. For other files only the machine is known. Sections
//! are not read, because a program may lack them. Source: elf(5); Go, `debug/buildinfo` and
//! `cmd/link` (the build ID's note).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// An ELF file.
#[derive(Debug)]
pub(super) struct Elf {
    file: File,
    pub machine: Machine,
    /// `e_type`; 0 if class or byte order differ from the host's.
    kind: u16,
    segments: Vec<Segment>,
}

/// Class (1: 32 bits, 2: 64), byte order (1: little-endian) and `e_machine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    class: u8,
    order: u8,
    number: u16,
}

/// A program header.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    size: u64,
    align: u64,
}

/// A note: the name of its owner, without NUL, its type, and its content.
pub(super) struct Note<'a> {
    pub name: &'a [u8],
    pub kind: u32,
    pub content: &'a [u8],
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const PF_W: u32 = 2;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const HEADER: usize = 64;
/// `struct Elf64_Phdr`.
const SEGMENT: usize = 56;
/// Maximum length read of a loader's name, notes or a dynamic section, in bytes.
const PART_MAX: u64 = 64 * 1024;
/// Maximum length of writable data searched for Go's build information, in bytes.
const DATA_MAX: u64 = 64 << 20;
/// A multiple of [`GO_ALIGN`].
const CHUNK: u64 = 1 << 20;
const GO_ALIGN: usize = 16;

impl Elf {
    /// Reads `file`; none if it is no ELF file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(file: File) -> io::Result<Option<Self>> {
        let head = read(&file, 0, HEADER as u64)?;
        if !head.starts_with(b"\x7fELF") || head.len() < 20 {
            return Ok(None);
        }
        let order = head[5];
        let number = [head[18], head[19]];
        let number = if order == 1 { u16::from_le_bytes(number) } else { u16::from_be_bytes(number) };
        let machine = Machine { class: head[4], order, number };
        let ours = if cfg!(target_endian = "little") { 1 } else { 2 };
        if head.len() < HEADER || (machine.class, machine.order) != (2, ours) {
            return Ok(Some(Self { file, machine, kind: 0, segments: Vec::new() }));
        }
        let (start, size, count) = (long(&head, 32), half(&head, 54), half(&head, 56));
        // The kernel runs no program with program headers of another size, or longer than that.
        let len = (SEGMENT * usize::from(count)) as u64;
        let table = match usize::from(size) == SEGMENT && len <= PART_MAX {
            true => read(&file, start, len)?,
            false => Vec::new(),
        };
        let segments = table.chunks_exact(SEGMENT).map(|header| Segment {
            kind: word(header, 0),
            flags: word(header, 4),
            offset: long(header, 8),
            size: long(header, 32),
            align: long(header, 48),
        });
        let segments = segments.collect();
        Ok(Some(Self { kind: half(&head, 16), machine, segments, file }))
    }

    /// True for a program or a shared library, false for an object file or a core.
    pub fn is_loadable(&self) -> bool {
        matches!(self.kind, ET_EXEC | ET_DYN)
    }

    /// Path of the dynamic loader; none if statically linked, or a library.
    pub fn loader(&self) -> Option<Vec<u8>> {
        let mut name = self.parts(PT_INTERP).next()?;
        while name.last() == Some(&0) {
            name.pop();
        }
        Some(name)
    }

    /// True if it needs any library: without one, it makes direct system calls.
    pub fn needs_library(&self) -> bool {
        let tags = |part: Vec<u8>| {
            let tags: Vec<_> = part.chunks_exact(16).map(|entry| long(entry, 0)).collect();
            tags.into_iter().take_while(|tag| *tag != DT_NULL)
        };
        self.parts(PT_DYNAMIC).flat_map(tags).any(|tag| tag == DT_NEEDED)
    }

    /// True if compiled by Go: it has a build ID note, or build information in writable data.
    /// Either may be stripped.
    pub fn is_go(&self) -> bool {
        self.find_note(|note| (note.name == b"Go").then_some(())).is_some() || self.has_go_build_information()
    }

    /// First result of `matches` at a note.
    pub fn find_note<T>(&self, mut matches: impl FnMut(Note<'_>) -> Option<T>) -> Option<T> {
        self.segments.iter().filter(|segment| segment.kind == PT_NOTE).find_map(|segment| {
            let notes = self.part(segment);
            // Any other alignment means 4.
            let align = if segment.align == 8 { 8 } else { 4 };
            let mut rest = &notes[..];
            while let Some((note, next)) = note(rest, align) {
                if let Some(found) = matches(note) {
                    return Some(found);
                }
                rest = next;
            }
            None
        })
    }

    fn parts(&self, kind: u32) -> impl Iterator<Item = Vec<u8>> {
        self.segments.iter().filter(move |segment| segment.kind == kind).map(|segment| self.part(segment))
    }

    /// Content of a segment, as far as it is in the file.
    fn part(&self, segment: &Segment) -> Vec<u8> {
        read(&self.file, segment.offset, segment.size.min(PART_MAX)).unwrap_or_default()
    }

    fn has_go_build_information(&self) -> bool {
        // Split, so that this program's own data does not contain it.
        let magic = [&b"\xff Go build"[..], b"inf:"].concat();
        let writable =
            |segment: &&Segment| segment.kind == PT_LOAD && segment.flags & PF_W != 0 && segment.size > 0;
        self.segments.iter().filter(writable).any(|segment| {
            let end = segment.offset.saturating_add(segment.size.min(DATA_MAX));
            // None if the offset overflows.
            let mut next = segment.offset.checked_next_multiple_of(GO_ALIGN as u64);
            while let Some(at) = next.filter(|at| *at < end) {
                let chunk = read(&self.file, at, CHUNK.min(end - at)).unwrap_or_default();
                if chunk.chunks(GO_ALIGN).any(|block| block.starts_with(&magic)) {
                    return true;
                }
                if chunk.is_empty() {
                    return false;
                }
                next = at.checked_add(CHUNK);
            }
            false
        })
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match (self.number, self.class) {
            (3, _) => "32-bit x86",
            (62, 1) => "x86-64 with 32-bit pointers (x32)",
            (62, _) => "64-bit x86",
            (40, _) => "32-bit ARM",
            (183, _) => "64-bit ARM",
            (243, _) => "RISC-V",
            (22, _) => "IBM S/390",
            (20 | 21, _) => "PowerPC",
            (8, _) => "MIPS",
            (258, _) => "LoongArch",
            (number, _) => return write!(f, "ELF machine {number}"),
        };
        f.write_str(name)
    }
}

/// First note, and the bytes after it.
fn note(bytes: &[u8], align: usize) -> Option<(Note<'_>, &[u8])> {
    const HEADER: usize = 12;
    let header = bytes.get(..HEADER)?;
    let [name, content] = [0, 4].map(|at| word(header, at) as usize);
    let begin = HEADER.checked_add(name)?.checked_next_multiple_of(align)?;
    let end = begin.checked_add(content)?;
    let mut owner = bytes.get(HEADER..HEADER + name)?;
    while let [rest @ .., 0] = owner {
        owner = rest;
    }
    let note = Note { name: owner, kind: word(header, 8), content: bytes.get(begin..end)? };
    let next = end.checked_next_multiple_of(align).and_then(|next| bytes.get(next..));
    Some((note, next.unwrap_or_default()))
}

/// Reads `len` bytes at `at`, or fewer at the end of the file.
fn read(file: &File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let mut have = 0;
    while have < bytes.len() {
        match file.read_at(&mut bytes[have..], at.saturating_add(have as u64)) {
            Ok(0) => break,
            Ok(more) => have += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(have);
    Ok(bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_cut_anywhere_never_panics() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let file = std::env::temp_dir().join(format!("greenwave-elf-{}", std::process::id()));
        for len in (0..4096).chain([bytes.len() / 2]) {
            std::fs::write(&file, &bytes[..len]).unwrap();
            let Some(elf) = Elf::read(File::open(&file).unwrap()).unwrap() else { continue };
            let _ = (elf.is_loadable(), elf.loader(), elf.needs_library(), elf.is_go());
        }
        // Out-of-range sizes and counts of program headers.
        for at in [54..56, 56..58, 54..58] {
            let mut odd = bytes[..4096].to_vec();
            odd[at].fill(0xff);
            std::fs::write(&file, odd).unwrap();
            let elf = Elf::read(File::open(&file).unwrap()).unwrap().expect("it begins as one");
            assert!(elf.loader().is_none() && !elf.is_go());
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn segments_at_the_end_of_all_offsets_are_empty() {
        // `e_phoff` 64, `e_phentsize` 56, `e_phnum` 1; the program header is all ones except type
        // and offset.
        let mut bytes = std::fs::read("/proc/self/exe").unwrap()[..HEADER].to_vec();
        bytes[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        bytes[54..58].copy_from_slice(&[56_u16.to_ne_bytes(), 1_u16.to_ne_bytes()].concat());
        let file = std::env::temp_dir().join(format!("greenwave-elf-end-{}", std::process::id()));
        for kind in [PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE] {
            for offset in [u64::MAX, u64::MAX - 14, u64::MAX - 15, u64::MAX - CHUNK, 1 << 63] {
                let mut header = [0xff; SEGMENT];
                header[..4].copy_from_slice(&kind.to_ne_bytes());
                header[8..16].copy_from_slice(&offset.to_ne_bytes());
                std::fs::write(&file, [&bytes[..], &header].concat()).unwrap();
                let elf = Elf::read(File::open(&file).unwrap()).unwrap().expect("it begins as one");
                assert!(!elf.needs_library() && !elf.is_go());
                assert!(elf.loader().is_none_or(|loader| loader.is_empty()));
            }
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn this_program_has_a_loader_and_libraries_and_is_not_go_s() {
        let elf = Elf::read(File::open("/proc/self/exe").unwrap()).unwrap().expect("it runs");
        assert!(elf.is_loadable() && elf.needs_library() && !elf.is_go());
        let loader = elf.loader().expect("tests are linked dynamically");
        assert!(std::path::Path::new(std::str::from_utf8(&loader).unwrap()).exists());
        // The C library has a note with its minimum kernel version (GNU, type 1).
        let abi = elf.find_note(|note| (note.name == b"GNU" && note.kind == 1).then_some(note.content.len()));
        assert_eq!(abi, Some(16));
    }

    #[test]
    fn a_note_whose_sizes_are_beyond_all_bounds_ends_the_notes() {
        assert!(note(&[0xff; 64], 4).is_none());
        (0..12).for_each(|len| assert!(note(&[0; 12][..len], 4).is_none()));
    }
}
