//! Compiled BPF programs, loaded by libbpf, which relocates their structure accesses to this kernel.
//! Once loaded they are descriptors like any other.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use libbpf_rs::{ErrorKind, Object, ObjectBuilder, PrintLevel};

/// Aligned bytes: libbpf reads an object in place, like a mapped file.
#[repr(align(8))]
pub struct Aligned<T: ?Sized>(pub T);

/// Object of the core scheduler, `cores.bpf.c`.
pub static CORES: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/cores.bpf.o")));

/// Reason why a program is not loaded.
#[derive(Debug)]
pub enum Refusal {
    /// The kernel has no BTF.
    NoBtf,
    /// The kernel denies permission.
    NoPermission,
    /// The kernel rejects the program; libbpf's message, and its error.
    Program(String, io::Error),
}

/// Messages of libbpf since the last load, which are more informative than its errors.
static MESSAGES: Mutex<String> = Mutex::new(String::new());
/// Bytes of messages kept: the first ones give the cause.
const MESSAGES_MAX: usize = 300;

/// Has the kernel verify all programs of `bytes` except those named in `without`.
pub fn load(bytes: &Aligned<[u8]>, without: &[&str]) -> Result<Object, Refusal> {
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Refusal::NoBtf);
    }
    if let Ok(mut messages) = MESSAGES.lock() {
        messages.clear();
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        if let Ok(mut messages) = MESSAGES.lock()
            && messages.len() < MESSAGES_MAX
        {
            let separator = if messages.is_empty() { "" } else { "; " };
            *messages += &format!("{separator}{}", essence(&text));
        }
    })));
    let mut object = ObjectBuilder::default().open_memory(&bytes.0)?;
    for mut program in object.progs_mut() {
        if without.iter().any(|name| program.name() == *name) {
            program.set_autoload(false);
        }
    }
    object.load().map_err(Refusal::from)
}

/// Last line of the verifier's log; a single line as it is.
fn essence(text: &str) -> &str {
    let last = text.lines().take_while(|line| !line.starts_with("processed ")).last();
    last.unwrap_or(text).trim().trim_start_matches("libbpf: ")
}

impl From<libbpf_rs::Error> for Refusal {
    fn from(e: libbpf_rs::Error) -> Self {
        match e.kind() {
            ErrorKind::PermissionDenied => Self::NoPermission,
            _ => {
                let messages = MESSAGES.lock().map_or(String::new(), |messages| messages.clone());
                Self::Program(messages, io::Error::other(e.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::essence;

    #[test]
    fn of_a_protocol_the_last_words_are_kept() {
        let log = "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\nR0 !read_ok\nprocessed 1 insns\n-- END --\n";
        assert_eq!(essence(log), "R0 !read_ok");
        assert_eq!(essence("libbpf: prog 'x': failed to load: -22\n"), "prog 'x': failed to load: -22");
        assert_eq!(essence(""), "");
    }
}
