//! The files that ship with the program: experiments, the papers' numbers, and
//! what experiments read.

use include_dir::{Dir, File, include_dir};

/// The folder `experiments/`.
pub static SHIPPED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments");

/// The text of a file that ships among the experiments, or lies at path `name`.
///
/// # Errors
/// One line: what the kernel says of the path.
pub fn text(name: &str) -> Result<String, String> {
    let shipped = SHIPPED.get_file(name).and_then(File::contents_utf8);
    let read = || std::fs::read_to_string(name).map_err(|e| format!("{name}: {e}"));
    shipped.map_or_else(read, |text| Ok(text.to_owned()))
}
