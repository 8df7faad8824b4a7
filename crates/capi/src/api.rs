//! The C API: what a program that knows of us can ask, beyond the calls that
//! every program makes. `include/greenwave.h` is made from this file.
//!
//! The program runs under `greenwave run` and has ordinary descriptors; these
//! functions tell what the stack knows of them. It need not be linked with
//! anything else. [`greenwave_watch`] and [`greenwave_wait`] work on any
//! descriptor; of what is not on the stack, and without `greenwave run`,
//! [`greenwave_owns`] says 0 and all others fail with `ENOTSOCK`, so one
//! program serves both.
//! A classifier of C cannot be asked for each packet, for the stack is another
//! process: what a program registers are rules ([`greenwave_classify`]), and
//! what they and the program share is the private area. Source: ADPS M3–M7.

use std::ffi::{CStr, c_char, c_int};

use host::shim::label_table::PRIVATE;
use host::shim::socket_name::Kind;
use host::shim::tcp_sockopt::{PRIORITY, PRIVATE_BYTES, SOL_GREENWAVE};
use host::shim::{Answer, Name, Request};
use rustix::io::Errno;

use crate::{fail, label, ours, seam};

mod wait;

pub use wait::{GreenwaveEvent, greenwave_wait, greenwave_watch};

/// Bytes that a connection shares with its classifiers.
pub const GREENWAVE_PRIVATE: usize = 48;
const _: () = assert!(GREENWAVE_PRIVATE == PRIVATE);

/// What a connection has been like, as of what came last on it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GreenwaveFlow {
    /// Smoothed round-trip time in nanoseconds; 0 before the first sample.
    pub rtt_ns: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent and acknowledged.
    pub sent: u64,
    /// Segments retransmitted of the latest thousands of segments sent, 0.0 to 1.0.
    pub loss: f32,
}

/// Whose a descriptor is: 3 for a socket for datagrams on the stack, 2 for a
/// connection on it, 1 for a listener, 0 for anything else.
#[unsafe(no_mangle)]
pub extern "C" fn greenwave_owns(fd: c_int) -> c_int {
    match ours(fd).map(|name| name.kind) {
        Some(Kind::Connection | Kind::Opened) => 2,
        Some(Kind::Listener) => 1,
        Some(Kind::Datagrams) => 3,
        None => 0,
    }
}

/// How urgent is what connection `fd` was handed last, or what was said of
/// it: 0 (most) to 7 (least); -1 and errno where that is not known.
#[unsafe(no_mangle)]
pub extern "C" fn greenwave_priority(fd: c_int) -> c_int {
    let level = connection(fd).and_then(|name| label::get(&name, PRIORITY));
    match level.as_deref().map(|bytes| bytes.try_into().map(c_int::from_ne_bytes)) {
        Ok(Ok(level)) => level,
        Ok(Err(_)) => fail(Errno::IO),
        Err(errno) => fail(*errno),
    }
}

/// What connection `fd` sends is as urgent as `priority`, 0 to 7, until
/// something comes on it. 0, or -1 and errno.
#[unsafe(no_mangle)]
pub extern "C" fn greenwave_set_priority(fd: c_int, priority: c_int) -> c_int {
    let asked = connection(fd).and_then(|name| {
        let seam = seam().ok_or(Errno::NOTSOCK)?;
        let (level, name, id) = (SOL_GREENWAVE, PRIORITY, name.id);
        seam.ask(&Request::Option { id, level, name, value: [priority, 0] })
    });
    outcome(asked.map(|asked| asked.answer))
}

/// Copies connection `fd`'s private bytes to `bytes`. 0, or -1 and errno.
///
/// # Safety
/// `bytes` has room for `GREENWAVE_PRIVATE` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn greenwave_private_read(fd: c_int, bytes: *mut u8) -> c_int {
    let private = connection(fd).and_then(|name| label::get(&name, PRIVATE_BYTES));
    match private {
        Ok(private) if private.len() == PRIVATE && !bytes.is_null() => {
            // SAFETY: the caller has room for so many bytes, and they are not ours.
            unsafe { std::ptr::copy_nonoverlapping(private.as_ptr(), bytes, PRIVATE) };
            0
        }
        Ok(_) => fail(Errno::FAULT),
        Err(errno) => fail(errno),
    }
}

/// Sets connection `fd`'s private bytes; its classifiers see them from the
/// next packet on. 0, or -1 and errno.
///
/// # Safety
/// `bytes` points to `GREENWAVE_PRIVATE` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn greenwave_private_write(fd: c_int, bytes: *const u8) -> c_int {
    let set = connection(fd).and_then(|name| {
        let seam = seam().ok_or(Errno::NOTSOCK)?;
        // SAFETY: the caller's `bytes` are so many, or it is null, which is refused.
        unsafe { label::set_private(seam, &name, bytes.cast(), PRIVATE as u32) }
    });
    outcome(set.map(|()| Answer::Done))
}

/// Copies what connection `fd` has been like to `flow`. 0, or -1 and errno.
///
/// # Safety
/// `flow` points to a flow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn greenwave_flow(fd: c_int, flow: *mut GreenwaveFlow) -> c_int {
    if flow.is_null() {
        return fail(Errno::FAULT);
    }
    let known = connection(fd).and_then(|name| {
        let labels = label::all().ok_or(Errno::NETDOWN)?;
        labels.flow(name.id).ok_or(Errno::NOTCONN)
    });
    match known {
        Ok(known) => {
            let host::shim::label_table::Flow { rtt_ns, received, sent, loss } = known;
            // SAFETY: the caller's `flow` is one.
            unsafe { flow.write(GreenwaveFlow { rtt_ns, received, sent, loss }) };
            0
        }
        Err(errno) => fail(errno),
    }
}

/// Registers `policy` (TOML, see the guide to policies; rules of the
/// transport) for the connections that listener `fd` will accept. To be called
/// between bind and listen; it holds instead of the operator's rules. 0, or -1
/// and errno: `EINVAL` for a policy that means nothing, with the reason in
/// `why`, cut to `why_len` bytes with the NUL.
///
/// # Safety
/// `policy` ends with NUL; `why` has room for `why_len` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn greenwave_classify(
    fd: c_int,
    policy: *const c_char,
    why: *mut c_char,
    why_len: usize,
) -> c_int {
    if policy.is_null() {
        return fail(Errno::FAULT);
    }
    // SAFETY: the caller's text ends with NUL.
    let policy = unsafe { CStr::from_ptr(policy) };
    let listener = ours(fd).filter(|name| name.kind == Kind::Listener).ok_or(Errno::NOTSOCK);
    let asked = listener.and_then(|name| {
        let seam = seam().ok_or(Errno::NOTSOCK)?;
        seam.rule(name.id, policy.to_bytes())
    });
    match asked {
        Ok(None) => 0,
        Ok(Some(reason)) => {
            if !why.is_null() && why_len > 0 {
                let len = reason.len().min(why_len - 1);
                // SAFETY: the caller has room for `why_len` bytes, of which these are the first.
                unsafe { std::ptr::copy_nonoverlapping(reason.as_ptr(), why.cast(), len) };
                // SAFETY: as above; `len` is at most the last.
                unsafe { why.add(len).write(0) };
            }
            fail(Errno::INVAL)
        }
        Err(errno) => fail(errno),
    }
}

fn connection(fd: c_int) -> Result<Name, Errno> {
    ours(fd).filter(label::has).ok_or(Errno::NOTSOCK)
}

fn outcome(answer: Result<Answer, Errno>) -> c_int {
    match answer {
        Ok(Answer::No(errno)) => fail(Errno::from_raw_os_error(errno)),
        Ok(_) => 0,
        Err(errno) => fail(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// `UPDATE=1 cargo test -p capi` writes it anew.
    #[test]
    fn the_header_says_what_the_sources_say() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = ["src/api.rs", "src/api/wait.rs"].map(|file| here.join(file));
        let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("a configuration");
        let builder = sources.iter().fold(cbindgen::Builder::new(), |builder, file| builder.with_src(file));
        let mut made = Vec::new();
        builder.with_config(config).generate().expect("sources of C").write(&mut made);
        let path = here.join("include/greenwave.h");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(here.join("include")).expect("the folder is writable");
            std::fs::write(&path, &made).expect("the folder is writable");
        }
        let header = std::fs::read(&path).expect("the header is there");
        assert!(made == header, "the header is old: UPDATE=1 cargo test -p capi makes it anew");
    }
}
