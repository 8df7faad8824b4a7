//! BPF programs of the guard, loaded by libbpf.

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::Link;

use super::WaitEnd;
use super::error::GuardError;
use super::maps::Maps;
use crate::bpf::object::{self, Aligned, Refusal};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/guard.bpf.o")));

/// Programs and maps; the program that tracks connections runs as long as this lives.
pub struct Loaded {
    /// XDP program.
    pub program: OwnedFd,
    /// Reads accept queues.
    pub look: OwnedFd,
    /// Counts connections that wait for a response, if `until` needs it.
    pub waits: Option<OwnedFd>,
    /// Maps of all programs.
    pub maps: Maps,
    _traces: Vec<Link>,
}

impl From<Refusal> for GuardError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoBtf => Self::NoBtf,
            Refusal::NoPermission => Self::NoPermission,
            Refusal::Program(log, source) => Self::Refused { what: format!("the program ({log})"), source },
        }
    }
}

/// Programs that need a newer kernel: one observes transmissions, at this tracepoint; one counts
/// connections that wait for a response.
const ANSWER: &str = "gw_answer";
const SENT: &str = "sock_send_length";
const WAITS: &str = "gw_waits";

/// Has the kernel verify the programs; a connection's wait ends at `until`.
///
/// # Errors
/// [`GuardError`]; nothing is left behind then.
pub fn load(until: WaitEnd) -> Result<Loaded, GuardError> {
    let object = match until {
        WaitEnd::Accept => object::load(OBJECT, &[ANSWER, WAITS])?,
        WaitEnd::Answer => object::load(OBJECT, &[]).map_err(|refusal| match refusal {
            Refusal::Program(log, _) if log.contains(SENT) => GuardError::NoAnswers,
            refusal => refusal.into(),
        })?,
    };
    let refused = |e: libbpf_rs::Error| GuardError::from(Refusal::from(e));
    let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned();
    let mut maps = Vec::new();
    for map in object.maps() {
        maps.push(own(map.as_fd()).map_err(|e| refused(e.into()))?);
    }
    let maps = Maps::of(maps)?;
    let (mut guard, mut look, mut waits, mut traces) = (None, None, None, Vec::new());
    for program in object.progs_mut() {
        let fd = || own(program.as_fd()).map_err(|e| refused(e.into()));
        match program.name().to_str() {
            Some(super::PROGRAM) => guard = Some(fd()?),
            Some("gw_look") => look = Some(fd()?),
            Some(ANSWER | WAITS) if until == WaitEnd::Accept => {}
            Some(WAITS) => waits = Some(fd()?),
            _ => traces.push(program.attach_trace().map_err(refused)?),
        }
    }
    let expected = "it is in the object";
    let (program, look) = (guard.expect(expected), look.expect(expected));
    Ok(Loaded { program, look, waits, maps, _traces: traces })
}
