//! C API for programs written for greenwave. cbindgen makes `include/greenwave.h` from this file.
//!
//! The program runs under `greenwave run`, has ordinary descriptors, and need not be linked with
//! anything. [`greenwave_watch`] and [`greenwave_wait`] work on any descriptor. For a descriptor
//! that is not on the stack, and without `greenwave run`, [`greenwave_owns`] returns 0 and all
//! others fail with `ENOTSOCK`, so one binary serves both.
//!
//! There is no per-packet callback, because the stack is another process: a program registers rules
//! ([`greenwave_classify`]), and shares the private area with them. Source: ADPS M3–M7.

use std::ffi::{CStr, c_char, c_int};

use rustix::io::Errno;
use shim::label_table::PRIVATE;
use shim::socket_name::SocketKind;
use shim::tcp_sockopt::{PRIORITY, PRIVATE_BYTES, SOL_GREENWAVE};
use shim::{Answer, Name, Request};

use crate::{fail, label, ours, shim_client};

mod wait;

pub use wait::{GreenwaveEvent, greenwave_wait, greenwave_watch};

/// Bytes that a connection shares with its classifiers.
pub const GREENWAVE_PRIVATE: usize = 48;
const _: () = assert!(GREENWAVE_PRIVATE == PRIVATE);

/// State of a connection as of its last segment received.
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

/// Kind of a descriptor: 3 for a UDP socket on the stack, 2 for a connection, 1 for a listener, 0
/// for anything else.
#[unsafe(no_mangle)]
pub extern "C" fn greenwave_owns(fd: c_int) -> c_int {
    match ours(fd).map(|name| name.kind) {
        Some(SocketKind::Connection | SocketKind::Opened) => 2,
        Some(SocketKind::Listener) => 1,
        Some(SocketKind::Datagrams) => 3,
        None => 0,
    }
}

/// Priority of connection `fd`, 0 (most urgent) to 7 (least): that of the data received last, or
/// the one set. -1 and errno if it is not known.
#[unsafe(no_mangle)]
pub extern "C" fn greenwave_priority(fd: c_int) -> c_int {
    let level = connection(fd).and_then(|name| label::get(&name, PRIORITY));
    match level.as_deref().map(|bytes| bytes.try_into().map(c_int::from_ne_bytes)) {
        Ok(Ok(level)) => level,
        Ok(Err(_)) => fail(Errno::IO),
        Err(errno) => fail(*errno),
    }
}

/// Sets the priority, 0 to 7, of data sent on connection `fd` until data arrives on it. Returns 0,
/// or -1 and errno.
#[unsafe(no_mangle)]
pub extern "C" fn greenwave_set_priority(fd: c_int, priority: c_int) -> c_int {
    let asked = connection(fd).and_then(|name| {
        let shim_client = shim_client().ok_or(Errno::NOTSOCK)?;
        let (level, name, id) = (SOL_GREENWAVE, PRIORITY, name.id);
        shim_client.ask(&Request::Option { id, level, name, value: [priority, 0] })
    });
    outcome(asked.map(|asked| asked.answer))
}

/// Copies connection `fd`'s private bytes to `bytes`. Returns 0, or -1 and errno.
///
/// # Safety
/// `bytes` has space for `GREENWAVE_PRIVATE` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn greenwave_private_read(fd: c_int, bytes: *mut u8) -> c_int {
    let private = connection(fd).and_then(|name| label::get(&name, PRIVATE_BYTES));
    match private {
        Ok(private) if private.len() == PRIVATE && !bytes.is_null() => {
            // SAFETY: the caller provides so many bytes, outside our memory.
            unsafe { std::ptr::copy_nonoverlapping(private.as_ptr(), bytes, PRIVATE) };
            0
        }
        Ok(_) => fail(Errno::FAULT),
        Err(errno) => fail(errno),
    }
}

/// Sets connection `fd`'s private bytes; its classifiers see them from the next packet on. Returns
/// 0, or -1 and errno.
///
/// # Safety
/// `bytes` points to `GREENWAVE_PRIVATE` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn greenwave_private_write(fd: c_int, bytes: *const u8) -> c_int {
    let set = connection(fd).and_then(|name| {
        let shim_client = shim_client().ok_or(Errno::NOTSOCK)?;
        // SAFETY: the caller's `bytes` has this length, or is null, which is refused.
        unsafe { label::set_private(shim_client, &name, bytes.cast(), PRIVATE as u32) }
    });
    outcome(set.map(|()| Answer::Done))
}

/// Copies the state of connection `fd` to `flow`. Returns 0, or -1 and errno.
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
            let shim::label_table::FlowStats { rtt_ns, received, sent, loss } = known;
            // SAFETY: the caller's `flow` points to a flow.
            unsafe { flow.write(GreenwaveFlow { rtt_ns, received, sent, loss }) };
            0
        }
        Err(errno) => fail(errno),
    }
}

/// Registers `policy` (TOML, see the guide to policies; transport rules only) for the connections
/// that listener `fd` will accept. It replaces the operator's rules; call it between bind and
/// listen. Returns 0, or -1 and errno. `EINVAL` means an invalid policy; the reason is in `why`,
/// cut to `why_len` bytes with the NUL.
///
/// # Safety
/// `policy` ends with NUL; `why` has space for `why_len` bytes, or is null.
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
    let listener = ours(fd).filter(|name| name.kind == SocketKind::Listener).ok_or(Errno::NOTSOCK);
    let asked = listener.and_then(|name| {
        let shim_client = shim_client().ok_or(Errno::NOTSOCK)?;
        shim_client.rule(name.id, policy.to_bytes())
    });
    match asked {
        Ok(None) => 0,
        Ok(Some(reason)) => {
            if !why.is_null() && why_len > 0 {
                let len = reason.len().min(why_len - 1);
                // SAFETY: the caller provides `why_len` bytes, of which these are the first.
                unsafe { std::ptr::copy_nonoverlapping(reason.as_ptr(), why.cast(), len) };
                // SAFETY: as above; `len` is at most the last index.
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

    //~ programs: `greenwave.h` matches the sources of the C API
    /// `UPDATE=1 cargo test -p capi` regenerates the header.
    #[test]
    fn the_header_says_what_the_sources_say() {
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = ["src/api.rs", "src/api/wait.rs"].map(|file| crate_dir.join(file));
        let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).expect("a configuration");
        let builder = sources.iter().fold(cbindgen::Builder::new(), |builder, file| builder.with_src(file));
        let mut made = Vec::new();
        builder.with_config(config).generate().expect("sources of C").write(&mut made);
        let path = crate_dir.join("include/greenwave.h");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(crate_dir.join("include")).expect("the folder is writable");
            std::fs::write(&path, &made).expect("the folder is writable");
        }
        let header = std::fs::read(&path).expect("the header is there");
        assert!(made == header, "greenwave.h is stale: UPDATE=1 cargo test -p capi regenerates it");
    }
}
