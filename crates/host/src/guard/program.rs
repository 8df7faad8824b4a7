//! The programs, loaded by libbpf.

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::Link;

use super::error::GuardError;
use super::maps::Maps;
use crate::bpf::object::{self, Aligned, Refusal};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/guard.bpf.o")));

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

impl From<Refusal> for GuardError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoBtf => Self::NoBtf,
            Refusal::NoPermission => Self::NoPermission,
            Refusal::Program(said, source) => Self::Refused { what: format!("the program ({said})"), source },
        }
    }
}

/// Has the kernel verify the programs.
///
/// # Errors
/// [`GuardError`]; nothing is left behind then.
pub fn load() -> Result<Loaded, GuardError> {
    let object = object::load(OBJECT)?;
    let refused = |e: libbpf_rs::Error| GuardError::from(Refusal::from(e));
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
