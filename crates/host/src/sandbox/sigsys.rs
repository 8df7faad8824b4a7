//! SIGSYS handler: reports a refused system call on stderr, the first time.
//!
//! The kernel sends SIGSYS in place of the call; the handler writes a line and makes the call fail with
//! EPERM. A flood of refused calls yields one line per call number.
//!
//! Source: seccomp(2), `SECCOMP_RET_TRAP`.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_long, c_void};

/// Installs the handler.
pub(super) fn watch() {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_refusal;
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, no mask, the default action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler takes three arguments, as SA_SIGINFO requires, and is async-signal-safe;
    // `action` lives through the call.
    unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) };
}

/// The part of a refused call's `siginfo_t` that is read.
#[repr(C)]
struct Refused {
    signal: c_int,
    error: c_int,
    code: c_int,
    from: *const c_void,
    call: c_int,
    arch: u32,
}

/// `SYS_SECCOMP` of asm-generic/siginfo.h: sent by a filter.
const BY_FILTER: c_int = 1;

extern "C" fn on_refusal(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a `siginfo_t`, whose part for this signal has this layout.
    let refused = unsafe { &*info.cast::<Refused>() };
    if refused.code != BY_FILTER {
        return;
    }
    // SAFETY: with SA_SIGINFO the third argument is the interrupted context, which is ours alone until
    // we return.
    fail(unsafe { &mut *context.cast::<libc::ucontext_t>() });
    let call = c_long::from(refused.call);
    if !is_first(call) {
        return;
    }
    let mut space = [0; 160];
    let room = space.len();
    let mut rest = &mut space[..];
    // No allocation: the thread may have been interrupted in one.
    let _ = match name(call) {
        Some(name) => writeln!(rest, "note: sandbox: the system call {name} was refused; {WAY_OUT}"),
        None => writeln!(rest, "note: sandbox: system call {call} was refused; {WAY_OUT}"),
    };
    let len = room - rest.len();
    // SAFETY: writes bytes of an array that lives through the call. A closed stderr is ignored.
    unsafe { libc::write(libc::STDERR_FILENO, space.as_ptr().cast(), len) };
}

const WAY_OUT: &str = "--no-sandbox allows all";

/// Makes the interrupted call return EPERM.
fn fail(context: &mut libc::ucontext_t) {
    let error = -i64::from(libc::EPERM);
    #[cfg(target_arch = "x86_64")]
    {
        context.uc_mcontext.gregs[libc::REG_RAX as usize] = error;
    }
    #[cfg(target_arch = "aarch64")]
    {
        context.uc_mcontext.regs[0] = error as u64;
    }
    #[cfg(target_arch = "riscv64")]
    {
        context.uc_mcontext.__gregs[10] = error as u64;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    {
        // Filters exist only for the architectures above.
        let _ = (context, error);
    }
}

/// True for the first refusal of `call`.
fn is_first(call: c_long) -> bool {
    /// One bit per number; larger numbers share the last.
    static SEEN: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    let number = usize::try_from(call).unwrap_or(usize::MAX).min(SEEN.len() * 64 - 1);
    let bit = 1 << (number % 64);
    SEEN[number / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// Name of the call, if it is a likely one.
fn name(call: c_long) -> Option<&'static str> {
    NAMES.iter().find(|(number, _)| *number == call).map(|(_, name)| name.trim_start_matches("SYS_"))
}

macro_rules! names {
    ($($name:ident)+) => { &[$((libc::$name, stringify!($name))),+] };
}

#[rustfmt::skip]
const NAMES: &[(c_long, &str)] = names![
    SYS_socket SYS_socketpair SYS_connect SYS_bind SYS_listen SYS_accept SYS_setsockopt SYS_ioctl SYS_fcntl
    SYS_openat SYS_openat2 SYS_execve SYS_execveat SYS_unlinkat SYS_renameat2 SYS_mkdirat SYS_linkat
    SYS_symlinkat SYS_fchmod SYS_fchmodat SYS_fchownat SYS_truncate SYS_fsync SYS_fdatasync
    SYS_fallocate SYS_faccessat SYS_statfs SYS_fstatfs SYS_pwrite64 SYS_preadv SYS_pwritev SYS_dup SYS_dup3 SYS_pipe2
    SYS_mmap SYS_mprotect SYS_mlock SYS_mlock2 SYS_mlockall SYS_msync SYS_memfd_create SYS_mbind
    SYS_set_mempolicy SYS_get_mempolicy SYS_membarrier SYS_process_vm_readv SYS_process_vm_writev
    SYS_prctl SYS_seccomp SYS_bpf SYS_ptrace SYS_perf_event_open SYS_io_uring_setup SYS_userfaultfd
    SYS_setuid SYS_setgid SYS_setresuid SYS_setresgid SYS_setgroups SYS_capset SYS_capget
    SYS_kill SYS_tkill SYS_tgkill SYS_wait4 SYS_waitid SYS_pidfd_open SYS_pidfd_getfd SYS_pidfd_send_signal
    SYS_sched_setaffinity SYS_sched_setscheduler SYS_sched_setattr SYS_setpriority SYS_prlimit64
    SYS_unshare SYS_setns SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_chdir SYS_umask
    SYS_pselect6 SYS_timerfd_create SYS_timerfd_settime SYS_signalfd4
    SYS_inotify_init1 SYS_rt_sigtimedwait SYS_copy_file_range SYS_sendfile SYS_splice
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_is_reported_once_by_its_name() {
        // Numbers that no call has, so that no other test reports them.
        assert!(is_first(500) && !is_first(500) && is_first(501));
        assert!(is_first(70_000) && !is_first(-1), "those without a bit share one");
        assert_eq!(name(libc::SYS_socket), Some("socket"));
        assert_eq!(name(70_000), None);
    }
}
