//! Files embedded in the program: experiments, the papers' numbers, and inputs of experiments.

use include_dir::{Dir, File, include_dir};

/// The folder `experiments/`.
pub static SHIPPED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments");

/// Text of an embedded file of the experiments, or of the file at path `name`.
///
/// # Errors
/// One line with the kernel's error for the path.
pub fn text(name: &str) -> Result<String, String> {
    let shipped = SHIPPED.get_file(name).and_then(File::contents_utf8);
    let read = || std::fs::read_to_string(name).map_err(|e| format!("{name}: {e}"));
    shipped.map_or_else(read, |text| Ok(text.to_owned()))
}
