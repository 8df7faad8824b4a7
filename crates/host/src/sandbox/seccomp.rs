//! Seccomp filters: system calls that a daemon may still make.
//!
//! Two filters: C libraries start threads and processes with signals blocked, so those calls cannot be
//! refused by a signal.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, BpfProgramRef, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::{Duty, sigsys};

/// Installs the filters by `apply`.
pub(super) fn filter(
    duty: Duty,
    apply: fn(BpfProgramRef<'_>) -> seccompiler::Result<()>,
) -> seccompiler::Result<()> {
    sigsys::watch();
    // This one first: the other forbids further filters.
    apply(&program(unknown()?, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?)?;
    apply(&program(allowed(duty)?, SeccompAction::Trap, SeccompAction::Allow)?)
}

/// Calls, each with alternative conditions; empty: always.
type Calls = BTreeMap<c_long, Vec<SeccompRule>>;

fn program(calls: Calls, other: SeccompAction, these: SeccompAction) -> Result<BpfProgram, BackendError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(calls, other, these, arch)?.try_into()
}

/// Calls that fail with ENOSYS: those that create processes, and clone3, whose flags are in memory,
/// which a filter cannot read. Without clone3, C libraries use clone.
fn unknown() -> Result<Calls, BackendError> {
    let processes = vec![none_of(0, libc::CLONE_THREAD as u64)?];
    Ok(Calls::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_clone, processes)]))
}

fn allowed(duty: Duty) -> Result<Calls, BackendError> {
    let mut calls: Calls = FREE.iter().map(|call| (*call, Vec::new())).collect();
    let own = std::process::id().into();
    let limited = [
        // Read only, and no new files.
        (libc::SYS_openat, vec![none_of(2, WRITES as u64)?]),
        // No executable memory.
        (libc::SYS_mmap, vec![none_of(2, libc::PROT_EXEC as u64)?]),
        (libc::SYS_mprotect, vec![none_of(2, libc::PROT_EXEC as u64)?]),
        // Descriptor flags, but not the owner of its signals.
        (libc::SYS_fcntl, any_of(1, &DESCRIPTOR.map(|what| what as u64))?),
        // Existence of the interface.
        (libc::SYS_ioctl, vec![is(1, libc::SIOCGIFINDEX)?]),
        // Affinity of the caller itself.
        (libc::SYS_sched_setaffinity, vec![is(0, 0)?]),
        // Idle class for the caller itself.
        (
            libc::SYS_sched_setscheduler,
            vec![SeccompRule::new(vec![equal(0, 0)?, equal(1, libc::SCHED_IDLE as u64)?])?],
        ),
        // Name of a thread, or of memory.
        (libc::SYS_prctl, any_of(0, &[libc::PR_SET_NAME as u64, libc::PR_SET_VMA as u64])?),
        // abort(), after a bug.
        (libc::SYS_tgkill, vec![is(0, own)?]),
        // Detaching an XDP program.
        (libc::SYS_bpf, vec![is(0, LINK_DETACH)?]),
    ];
    calls.extend(limited);
    match duty {
        Duty::Serve | Duty::Look => {}
        Duty::Run { .. } => calls.extend(of_run()?),
        Duty::Guard { .. } => calls.extend(of_guard()?),
    }
    Ok(calls)
}

/// Socket pairs, of which one end goes to a program, and the end of programs.
fn of_run() -> Result<Calls, BackendError> {
    Ok(Calls::from([
        (libc::SYS_socketpair, vec![is(0, libc::AF_UNIX as u64)?]),
        // A name for one end of a pair: no other socket is created.
        (libc::SYS_bind, Vec::new()),
        // Connections to the kernel companion socket of a program's listener.
        (libc::SYS_listen, Vec::new()),
        // Bytes waiting in the kernel, and suppression of datagram errors.
        (
            libc::SYS_setsockopt,
            vec![
                is(1, libc::SOL_SOCKET as u64)?,
                both((1, libc::IPPROTO_IP as u64), (2, libc::IP_RECVERR as u64))?,
                both((1, libc::IPPROTO_IPV6 as u64), (2, libc::IPV6_RECVERR as u64))?,
            ],
        ),
        // Bytes that a program has not read.
        (libc::SYS_ioctl, any_of(1, &[libc::SIOCGIFINDEX, libc::FIONBIO, libc::TIOCOUTQ])?),
        (libc::SYS_wait4, Vec::new()),
        (libc::SYS_waitid, Vec::new()),
        (libc::SYS_kill, Vec::new()),
    ]))
}

/// Access to the maps of the attached program, and its runs.
fn of_guard() -> Result<Calls, BackendError> {
    Ok(Calls::from([
        (libc::SYS_bpf, any_of(0, &BPF_OF_GUARD)?),
        // Check that the program is still attached.
        (libc::SYS_socket, vec![is(0, libc::AF_NETLINK as u64)?]),
        (libc::SYS_connect, Vec::new()),
    ]))
}

/// Argument `at`, from 0, equals `value`.
fn is(at: u8, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![equal(at, value)?])
}

/// Two arguments equal the given values, each with its position.
fn both(one: (u8, u64), other: (u8, u64)) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![equal(one.0, one.1)?, equal(other.0, other.1)?])
}

fn equal(at: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    condition(at, SeccompCmpOp::Eq, value)
}

/// Argument `at` is one of `values`.
fn any_of(at: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|value| is(at, *value)).collect()
}

/// None of `bits` is set in argument `at`.
fn none_of(at: u8, bits: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![condition(at, SeccompCmpOp::MaskedEq(bits), 0)?])
}

/// A condition on 32 bits, the size of all these arguments.
fn condition(at: u8, operation: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(at, SeccompCmpArgLen::Dword, operation, value)
}

/// Open flags that do more than read.
const WRITES: c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
const DESCRIPTOR: [c_int; 5] =
    [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC];
/// `BPF_LINK_DETACH` of linux/bpf.h.
const LINK_DETACH: u64 = 34;
/// bpf commands: look up, update, next key, test run, and link detach.
const BPF_OF_GUARD: [u64; 5] = [1, 2, 4, 10, LINK_DETACH];

/// Calls allowed with any arguments.
#[rustfmt::skip]
const FREE: &[c_long] = &[
    // Frames, replies to --ui and --control, captures, and traces on a full disk.
    libc::SYS_read, libc::SYS_readv, libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg,
    libc::SYS_write, libc::SYS_writev, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg,
    libc::SYS_accept4, libc::SYS_shutdown, libc::SYS_getsockopt, libc::SYS_getsockname, libc::SYS_getpeername,
    libc::SYS_ppoll, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2, libc::SYS_eventfd2,
    libc::SYS_close, libc::SYS_ftruncate,
    // Reloading a policy, machine information, and our own identity.
    libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_lseek, libc::SYS_pread64,
    libc::SYS_getdents64, libc::SYS_faccessat, libc::SYS_readlinkat,
    libc::SYS_getcwd, libc::SYS_uname, libc::SYS_sysinfo,
    libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getppid,
    // Memory.
    libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise,
    // Threads; clone also creates processes, which the other filter refuses.
    libc::SYS_clone, libc::SYS_clone3,
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_rseq, libc::SYS_gettid, libc::SYS_getpid,
    libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_getcpu,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    libc::SYS_restart_syscall, libc::SYS_exit, libc::SYS_exit_group,
    // Time and randomness.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_nanosleep,
    libc::SYS_gettimeofday, libc::SYS_getrandom, libc::SYS_getrusage,
    // Older forms of the same calls.
    #[cfg(target_arch = "x86_64")] libc::SYS_poll,
    #[cfg(target_arch = "x86_64")] libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")] libc::SYS_access,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
];
