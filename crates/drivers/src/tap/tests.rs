//! Checks that need no device, and one that creates a device if permitted.

use net::Device;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use std::io;
use std::net::Ipv4Addr;

use super::*;
use crate::soon::soon;

#[track_caller]
fn refused(name: &str) {
    match Tap::create(name) {
        Err(TapError::Name(given)) => assert_eq!(given, name),
        other => panic!("{name:?} must be refused by name, got {other:?}"),
    }
}

#[test]
fn names_the_kernel_cannot_take_are_refused_before_asking() {
    ["", "a-name-of-16-byte", "1234567890123456", "a/b", "a b", "a:1", ".", ".."]
        .into_iter()
        .for_each(refused);
}

//~ input: an error of a TAP device is one line with a remedy
#[test]
fn every_error_is_one_line_and_most_say_what_helps() {
    let other = || io::Error::other("odd");
    let errors = [
        TapError::Name("x y".into()),
        TapError::Prefix { prefix: 33, max: 32 },
        TapError::NoIpv6("gw0".into()),
        TapError::open(io::Error::from_raw_os_error(libc::ENOENT)),
        TapError::open(io::Error::from_raw_os_error(libc::EACCES)),
        TapError::attach("gw0", io::Error::from_raw_os_error(libc::EBUSY)),
        TapError::attach("eth0", io::Error::from_raw_os_error(libc::EINVAL)),
        TapError::Up { name: "gw0".into(), addr: Ipv4Addr::LOCALHOST.into(), prefix: 8, source: other() },
    ];
    for error in errors {
        assert!(!error.to_string().contains('\n'));
        assert!(error.advice().is_some(), "{error}");
    }
    assert!(
        TapError::attach("gw0", io::Error::from_raw_os_error(libc::EPERM)).to_string().contains("permission")
    );
}

#[test]
fn a_device_exists_once_and_until_it_is_dropped() {
    std::thread::spawn(in_own_network).join().unwrap();
}

/// Prints a skipped test, past the test harness, which captures the output of passing tests.
fn skipped(why: &str) {
    use std::io::Write;
    let line = format!("skipped: a_device_exists_once_and_until_it_is_dropped: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Runs on a thread with a network namespace of its own, so that the machine's network is left alone.
fn in_own_network() {
    // SAFETY: NEWNET shares no memory and no descriptors; only the calling thread moves, and it opens
    // its sockets after the move.
    if let Err(e) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
        return skipped(&format!("no network namespace: {e}"));
    }
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    let exists = || name_to_index(&socket, "gw0").is_ok();
    let mut tap = match Tap::create("gw0") {
        Ok(tap) => tap,
        Err(e @ (TapError::NoPermission | TapError::NoTun)) => return skipped(&e.to_string()),
        Err(e) => panic!("{e}"),
    };
    assert!(exists());
    assert!(matches!(Tap::create("gw0"), Err(TapError::NameInUse(_))));
    assert!(tap.receive(Time::ZERO).is_none(), "a device that is down has no frames");
    assert!(matches!(tap.up(Ipv4Addr::new(10, 77, 0, 1), 33), Err(TapError::Prefix { prefix: 33, max: 32 })));
    let v6: IpAddr = "fd00::1".parse().unwrap();
    assert!(matches!(tap.up(v6, 129), Err(TapError::Prefix { prefix: 129, max: 128 })));
    tap.up(v6, 64).unwrap();
    tap.up(Ipv4Addr::new(10, 77, 0, 1), 24).unwrap();
    drop(tap);
    soon(|| !exists());
}
