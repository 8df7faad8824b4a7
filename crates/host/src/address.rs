//! Local addresses: those of this machine, and those claimed by stacks of greenwave.
//!
//! The kernel's are read from its routing table, not found by binding a socket: in a network namespace
//! that never had an address, a socket may bind to any.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

/// True if `addr` is local to the kernel in this network namespace; false if `/proc` is not readable.
#[must_use]
pub fn is_ours(addr: IpAddr) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    match addr {
        IpAddr::V4(addr) => local(&read("/proc/net/fib_trie")).any(|local| local == addr),
        IpAddr::V6(addr) => local6(&read("/proc/net/if_inet6")).any(|local| local == addr),
    }
}

/// Claims `addr` on `device` against other stacks of greenwave in this network namespace. The claim
/// ends when the result is closed, which the kernel does however we end. It is the name of a socket,
/// which needs no permission: a protection from mistakes, not from attacks.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] if another stack has it; otherwise the kernel's error.
pub fn take(device: &str, addr: IpAddr) -> io::Result<OwnedFd> {
    let name = SocketAddrUnix::new_abstract_name(format!("greenwave/{device}/{addr}").as_bytes())?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &name)?;
    Ok(socket)
}

/// True if the kernel forwards packets.
#[must_use]
pub fn forwards() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|text| text.trim() == "1")
}

/// Local IPv4 addresses in `table`, the text of `/proc/net/fib_trie`: a leaf is a line with the address,
/// followed by lines with its type.
pub fn local(table: &str) -> impl Iterator<Item = Ipv4Addr> {
    let mut leaf = None;
    table.lines().filter_map(move |line| match line.trim_start().strip_prefix("|-- ") {
        Some(addr) => {
            leaf = addr.trim_end().parse().ok();
            None
        }
        None if line.trim() == "/32 host LOCAL" => leaf,
        None => None,
    })
}

/// IPv6 addresses in `table`, the text of `/proc/net/if_inet6`: each line begins with one, in 32
/// hexadecimal digits.
pub fn local6(table: &str) -> impl Iterator<Item = Ipv6Addr> {
    let digits = table.lines().filter_map(|line| line.split_whitespace().next());
    digits.filter_map(|digits| u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from_bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_on_a_device_is_taken_once_until_it_is_given_back() {
        let addr = |host| IpAddr::from([10, 77, 0, host]);
        let name = |device: &str| format!("{device}-{}", std::process::id());
        let first = take(&name("a"), addr(2)).unwrap();
        assert_eq!(take(&name("a"), addr(2)).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        take(&name("a"), addr(3)).unwrap();
        take(&name("b"), addr(2)).unwrap();
        drop(first);
        // A child forked by another test has all descriptors until it execs.
        let again = std::iter::repeat_with(|| {
            std::thread::yield_now();
            take(&name("a"), addr(2))
        });
        assert!(again.take(1_000_000).any(|taken| taken.is_ok()));
    }
}
