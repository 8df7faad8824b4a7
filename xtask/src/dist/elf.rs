//! Check for static linking: the program names no loader. Source: elf(5).

use std::fs;
use std::path::Path;

/// Type of the segment that names the loader.
const PT_INTERP: u32 = 3;

/// Refuses a dynamically linked program.
///
/// # Errors
/// The loader that the file names, or the reason why it is no ELF file.
pub(super) fn must_be_static(program: &Path) -> Result<(), String> {
    let failed = |why: String| format!("{}: {why}", program.display());
    let bytes = fs::read(program).map_err(|e| failed(e.to_string()))?;
    match loader(&bytes).ok_or_else(|| failed("it is no ELF file of 64 bits".to_owned()))? {
        None => Ok(()),
        Some(loader) => Err(failed(format!("it is loaded by {loader}, and so not static"))),
    }
}

/// The loader that a 64-bit ELF file in our byte order names, if any; `None` if it is no such file.
fn loader(bytes: &[u8]) -> Option<Option<String>> {
    let half = |at: usize| Some(usize::from(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)));
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let long = |at: usize| usize::try_from(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)).ok();
    bytes.strip_prefix(b"\x7fELF\x02")?;
    let (start, size, count) = (long(32)?, half(54)?, half(56)?);
    for header in (0..count).map(|n| start.saturating_add(n.saturating_mul(size))) {
        if word(header)? == PT_INTERP {
            let at = long(header.checked_add(8)?)?;
            let name = bytes.get(at..at.checked_add(long(header + 32)?)?)?;
            return Some(Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()));
        }
    }
    Some(None)
}
