//! The programs, loaded by libbpf: it finds where this kernel keeps what they
//! read. From then on they are descriptors like any other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

use libbpf_rs::{Link, ObjectBuilder, PrintLevel};

use super::error::GuardError;
use super::maps::Maps;

/// libbpf reads the object where it lies, as it would a file in memory.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/guard.bpf.o")));

/// The last complaint of libbpf, which says more than its errors.
static SAID: Mutex<String> = Mutex::new(String::new());

/// Programs and maps; the one that remembers connections runs as long as this lives.
pub struct Loaded {
    /// For an interface.
    pub program: OwnedFd,
    /// Reads accept queues.
    pub look: OwnedFd,
    /// Of all.
    pub maps: Maps,
    _state: Link,
}

/// Has the kernel verify the programs.
///
/// # Errors
/// [`GuardError`]; nothing is left behind then.
pub fn load() -> Result<Loaded, GuardError> {
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(GuardError::NoBtf);
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        if let Ok(mut said) = SAID.lock() {
            said.clear();
            said.push_str(text.trim());
        }
    })));
    let refused = |e: libbpf_rs::Error| match e.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => GuardError::NoPermission,
        _ => GuardError::Refused {
            what: format!("the program ({})", SAID.lock().map_or(String::new(), |said| said.clone())),
            source: io::Error::other(e.to_string()),
        },
    };
    let object =
        ObjectBuilder::default().open_memory(&OBJECT.0).and_then(|object| object.load()).map_err(refused)?;
    let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned();
    let mut maps = Vec::new();
    for map in object.maps() {
        maps.push(own(map.as_fd()).map_err(|e| refused(e.into()))?);
    }
    let maps = Maps::of(maps)?;
    let (mut guard, mut look, mut state) = (None, None, None);
    for program in object.progs_mut() {
        match program.name().to_str() {
            Some(super::PROGRAM) => guard = Some(own(program.as_fd()).map_err(|e| refused(e.into()))?),
            Some("gw_look") => look = Some(own(program.as_fd()).map_err(|e| refused(e.into()))?),
            _ => state = Some(program.attach_trace().map_err(refused)?),
        }
    }
    let there = "it is in the object";
    let (program, look, state) = (guard.expect(there), look.expect(there), state.expect(there));
    Ok(Loaded { program, look, maps, _state: state })
}
