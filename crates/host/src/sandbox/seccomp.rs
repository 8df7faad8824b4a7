//! Which system calls a daemon has left.
//!
//! Two filters, since what C libraries call while they have signals blocked, to
//! start a thread or a process, cannot be told by a signal.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, BpfProgramRef, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::{Duty, sigsys};

/// Filters calls from now on, by what `apply` does with a filter.
pub(super) fn filter(
    duty: Duty,
    apply: fn(BpfProgramRef<'_>) -> seccompiler::Result<()>,
) -> seccompiler::Result<()> {
    sigsys::watch();
    // This one first: the other allows no further filter.
    apply(&program(unknown()?, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?)?;
    apply(&program(allowed(duty)?, SeccompAction::Trap, SeccompAction::Allow)?)
}

/// Calls, each with the conditions of which one must hold; none: always.
type Calls = BTreeMap<c_long, Vec<SeccompRule>>;

fn program(calls: Calls, other: SeccompAction, these: SeccompAction) -> Result<BpfProgram, BackendError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(calls, other, these, arch)?.try_into()
}

/// Calls that are as if the kernel did not know them: those that make processes,
/// and clone3, whose wishes lie in memory, where no filter looks. Where that is
/// not known, C libraries take clone.
fn unknown() -> Result<Calls, BackendError> {
    let processes = vec![none_of(0, libc::CLONE_THREAD as u64)?];
    Ok(Calls::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_clone, processes)]))
}

fn allowed(duty: Duty) -> Result<Calls, BackendError> {
    let mut calls: Calls = FREE.iter().map(|call| (*call, Vec::new())).collect();
    let own = std::process::id().into();
    let limited = [
        // To read, and to make none.
        (libc::SYS_openat, vec![none_of(2, WRITES as u64)?]),
        // No memory that runs.
        (libc::SYS_mmap, vec![none_of(2, libc::PROT_EXEC as u64)?]),
        (libc::SYS_mprotect, vec![none_of(2, libc::PROT_EXEC as u64)?]),
        // What becomes of a descriptor, and not who hears of it.
        (libc::SYS_fcntl, any_of(1, &DESCRIPTOR.map(|what| what as u64))?),
        // Whether the interface is still there.
        (libc::SYS_ioctl, vec![is(1, libc::SIOCGIFINDEX)?]),
        // Which cores the caller itself runs on.
        (libc::SYS_sched_setaffinity, vec![is(0, 0)?]),
        // That the caller itself runs where nobody else wants to.
        (
            libc::SYS_sched_setscheduler,
            vec![SeccompRule::new(vec![equal(0, 0)?, equal(1, libc::SCHED_IDLE as u64)?])?],
        ),
        // The name of a thread, or of memory.
        (libc::SYS_prctl, any_of(0, &[libc::PR_SET_NAME as u64, libc::PR_SET_VMA as u64])?),
        // A bug of ours ends us.
        (libc::SYS_tgkill, vec![is(0, own)?]),
        // The end of an XDP program.
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

/// Pairs of sockets, of which one goes to a program, and the end of programs.
fn of_run() -> Result<Calls, BackendError> {
    Ok(Calls::from([
        (libc::SYS_socketpair, vec![is(0, libc::AF_UNIX as u64)?]),
        // A name for one of a pair: no other socket is made.
        (libc::SYS_bind, Vec::new()),
        // What comes to the kernel's half of a program's listener.
        (libc::SYS_listen, Vec::new()),
        // How much of it waits in the kernel, and that it tells of no errors of datagrams.
        (
            libc::SYS_setsockopt,
            vec![
                is(1, libc::SOL_SOCKET as u64)?,
                both((1, libc::IPPROTO_IP as u64), (2, libc::IP_RECVERR as u64))?,
                both((1, libc::IPPROTO_IPV6 as u64), (2, libc::IPV6_RECVERR as u64))?,
            ],
        ),
        // What a program has not read, too.
        (libc::SYS_ioctl, any_of(1, &[libc::SIOCGIFINDEX, libc::FIONBIO, libc::TIOCOUTQ])?),
        (libc::SYS_wait4, Vec::new()),
        (libc::SYS_waitid, Vec::new()),
        (libc::SYS_kill, Vec::new()),
    ]))
}

/// What is asked of the kernel about the program that is attached, and told to it.
fn of_guard() -> Result<Calls, BackendError> {
    Ok(Calls::from([
        (libc::SYS_bpf, any_of(0, &BPF_OF_GUARD)?),
        // Whether the program is still attached.
        (libc::SYS_socket, vec![is(0, libc::AF_NETLINK as u64)?]),
        (libc::SYS_connect, Vec::new()),
    ]))
}

/// Argument `at`, from 0, is `value`.
fn is(at: u8, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![equal(at, value)?])
}

/// Two arguments are what is given with their places.
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

/// Of 32 bits, as all these arguments are.
fn condition(at: u8, operation: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(at, SeccompCmpArgLen::Dword, operation, value)
}

/// What makes a file that is opened more than read.
const WRITES: c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
const DESCRIPTOR: [c_int; 5] =
    [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC];
/// `BPF_LINK_DETACH` of linux/bpf.h.
const LINK_DETACH: u64 = 34;
/// There: to look an element up, to change it, the next one, and to run a program.
const BPF_OF_GUARD: [u64; 5] = [1, 2, 4, 10, LINK_DETACH];

/// Calls that are allowed with any arguments.
#[rustfmt::skip]
const FREE: &[c_long] = &[
    // Frames, answers to whoever looks at --ui or asks by --control, captures, and traces on a disk that is full.
    libc::SYS_read, libc::SYS_readv, libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg,
    libc::SYS_write, libc::SYS_writev, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg,
    libc::SYS_accept4, libc::SYS_shutdown, libc::SYS_getsockopt, libc::SYS_getsockname, libc::SYS_getpeername,
    libc::SYS_ppoll, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2, libc::SYS_eventfd2,
    libc::SYS_close, libc::SYS_ftruncate,
    // A policy that is read again, what the machine is, and who we are.
    libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_lseek, libc::SYS_pread64,
    libc::SYS_getdents64, libc::SYS_faccessat, libc::SYS_readlinkat,
    libc::SYS_getcwd, libc::SYS_uname, libc::SYS_sysinfo,
    libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getppid,
    // Memory.
    libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise,
    // Threads; processes are made by clone as well, and are refused by the other filter.
    libc::SYS_clone, libc::SYS_clone3,
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_rseq, libc::SYS_gettid, libc::SYS_getpid,
    libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_getcpu,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    libc::SYS_restart_syscall, libc::SYS_exit, libc::SYS_exit_group,
    // Time and chance.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_nanosleep,
    libc::SYS_gettimeofday, libc::SYS_getrandom, libc::SYS_getrusage,
    // Older forms of the same.
    #[cfg(target_arch = "x86_64")] libc::SYS_poll,
    #[cfg(target_arch = "x86_64")] libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")] libc::SYS_access,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat,
];
