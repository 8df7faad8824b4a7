//! The scheduler in the kernel, loaded by libbpf; it is in place as long as the loaded object lives.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::{Link, MapCore, MapType};
use rustix::process::{PidfdFlags, pidfd_open};
use sched::cores::TaskId;

use super::super::undo_log::pid;
use super::Kernel;
use super::shared_layout::{CORES, Core, Kick, State, TASKS, THREADS, Task, Thread, member};
use crate::CoresError;
use host::mapping::Mapping;
use host::sched_policy::SchedPolicy;
use hostbpf::bpf::object::{self, Refusal};
use hostbpf::bpf::{self, Map};

/// Pidfd of a thread; the pidfd of a process stands for its first thread only (Linux 6.9).
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

struct Loaded {
    /// Dropped first: the kernel's own scheduler takes over.
    _link: Option<Link>,
    kick: OwnedFd,
    members: Map,
    cores: Mapping,
    tasks: Mapping,
    threads: Mapping,
    state: Mapping,
}

impl From<Refusal> for CoresError {
    fn from(refusal: Refusal) -> Self {
        let (what, advice) = match refusal {
            Refusal::NoBtf => (
                "scx: this kernel has no BTF: no /sys/kernel/btf/vmlinux".to_owned(),
                Some("a kernel with CONFIG_DEBUG_INFO_BTF".to_owned()),
            ),
            Refusal::NoPermission => (
                "scx needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN".to_owned(),
                Some("run as root, or mechanism = \"affinity\"".to_owned()),
            ),
            Refusal::Program(messages, e) => (
                format!("scx: the kernel refuses the scheduler: {e} ({messages})").replace('\n', " "),
                Some("mechanism = \"affinity\"".to_owned()),
            ),
        };
        Self { what, advice }
    }
}

fn refused(what: &'static str) -> impl Fn(io::Error) -> CoresError {
    move |e| CoresError::of_file(what, &e)
}

/// Has the kernel verify the scheduler, and starts it if `in_place`.
///
/// # Errors
/// The kernel's error; nothing is left behind then.
pub fn load(in_place: bool) -> Result<Box<dyn Kernel>, CoresError> {
    let mut object = object::load(object::CORES, &[])?;
    let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map_err(refused("scx: a descriptor"));
    let mut maps = Vec::new();
    for map in object.maps() {
        maps.push(Map::with_fd(own(map.as_fd())?).map_err(refused("scx: access to our maps"))?);
    }
    let mut take = |name: &str, len: usize| -> Result<Map, CoresError> {
        let at = maps.iter().position(|(_, its)| its == name);
        let map = at.map(|at| maps.swap_remove(at).0).filter(|map| map.value_len() == len);
        map.ok_or_else(|| CoresError {
            what: format!("scx: no map {name} of {len} bytes, as this version expects"),
            advice: None,
        })
    };
    let members = take("gw_member", 8)?;
    let mut shared = |name: &str, len: usize, count: usize| -> Result<Mapping, CoresError> {
        let map = take(name, len)?;
        Mapping::shared(&map, len * count, true)
            .map_err(refused("scx: memory that is shared with the kernel"))
    };
    let cores = shared("gw_core", size_of::<Core>(), CORES)?;
    let tasks = shared("gw_task", size_of::<Task>(), TASKS)?;
    let threads = shared("gw_thread", size_of::<Thread>(), THREADS)?;
    let state = shared("gw_state", size_of::<State>(), 1)?;
    let mut kick = None;
    for program in object.progs_mut() {
        if program.name() == "gw_kick" {
            kick = Some(own(program.as_fd())?);
        }
    }
    let kick = kick.expect("the program is in the object");
    let mut link = None;
    if in_place {
        for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
            link = Some(map.attach_struct_ops().map_err(Refusal::from)?);
        }
    }
    Ok(Box::new(Loaded { _link: link, kick, members, cores, tasks, threads, state }))
}

/// The first `count` values of a kind in `mapping`.
fn words<T>(mapping: &Mapping, count: usize) -> &[T] {
    assert!(count > 0, "count is at least 1");
    // The last one is inside, therefore all are.
    let _ = mapping.at::<T>((count - 1) * size_of::<T>());
    // SAFETY: the mapping holds `count` values, as just asserted, is page-aligned and outlives the
    // borrow. `T` consists of atomics only, for which any bits are valid; others change them by atomic
    // operations or in whole words.
    unsafe { std::slice::from_raw_parts(mapping.start().as_ptr().cast::<T>(), count) }
}

impl Kernel for Loaded {
    fn cores(&self) -> &[Core] {
        words(&self.cores, CORES)
    }

    fn tasks(&self) -> &[Task] {
        words(&self.tasks, TASKS)
    }

    fn threads(&self) -> &[Thread] {
        words(&self.threads, THREADS)
    }

    fn state(&self) -> &State {
        &words(&self.state, 1)[0]
    }

    fn kick(&self, kick: &Kick) -> io::Result<()> {
        bpf::call(&self.kick, &mut kick.arguments()).map(drop)
    }

    fn is_member(&self, thread: u32) -> io::Result<bool> {
        Ok(self.members.get(&key(&open(thread)?))?.is_some())
    }

    fn join(&self, thread: u32, task: TaskId, slot: Option<usize>) -> io::Result<()> {
        self.members.set(&key(&open(thread)?), &member(task, slot))?;
        SchedPolicy::EXT.set(pid(thread))
    }
}

fn open(thread: u32) -> io::Result<OwnedFd> {
    let id = pid(thread).ok_or(io::ErrorKind::NotFound)?;
    Ok(pidfd_open(id, PIDFD_THREAD)?)
}

fn key(thread: &OwnedFd) -> [u8; 4] {
    thread.as_raw_fd().to_ne_bytes()
}
