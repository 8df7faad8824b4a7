//! getifaddrs(3): adds the stack's addresses to the list.
//!
//! They precede the kernel's, in one allocation. Each of their entries is recognised by `ifa_data`,
//! which is unused for addresses and points to a mark.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::net::{IpAddr, SocketAddr};
use std::ptr::null_mut;

use libc::{ifaddrs, sockaddr, sockaddr_in6, socklen_t};
use shim::StackInterface;

use crate::real_fn::next;
use crate::{shim_client, socket_address};

/// Target of `ifa_data` in the stack's entries.
static MARK: u8 = 0;
/// Name of an interface that has none.
const NAMELESS: &[u8] = b"greenwave\0";
/// Flags of an interface that the kernel does not list.
const FLAGS: c_int = libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_BROADCAST | libc::IFF_MULTICAST;

/// Address entry, and the data that it points to.
#[repr(C)]
struct Entry {
    /// Entry visible to the program; first, so that its address is that of the [`Entry`].
    raw: ifaddrs,
    /// Number of entries from this one to the end of the block.
    count: usize,
    name: [c_char; libc::IF_NAMESIZE],
    addr: sockaddr_in6,
    netmask: sockaddr_in6,
    broadcast: sockaddr_in6,
}

/// getifaddrs(3).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn getifaddrs(list: *mut *mut ifaddrs) -> c_int {
    type Real = unsafe extern "C-unwind" fn(*mut *mut ifaddrs) -> c_int;
    let got = next!(getifaddrs(list) as Real);
    if got == 0
        && let Some(Ok(interface)) = shim_client().map(|shim_client| shim_client.interface())
    {
        // SAFETY: the C library has filled `list`.
        unsafe { *list = before(&interface, *list) };
    }
    got
}

/// freeifaddrs(3).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn freeifaddrs(list: *mut ifaddrs) {
    type Real = unsafe extern "C" fn(*mut ifaddrs);
    // SAFETY: the program has the list from `getifaddrs`.
    let kernels = unsafe { without_ours(list) };
    next!(freeifaddrs(kernels) as Real);
}

/// Prepends the addresses of `interface` to the list `kernels`.
///
/// # Safety
/// `kernels` is a list of the C library's, or null.
unsafe fn before(interface: &StackInterface, kernels: *mut ifaddrs) -> *mut ifaddrs {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer is large enough for a name.
    if unsafe { libc::if_indextoname(interface.number, name.as_mut_ptr()) }.is_null() {
        name.iter_mut().zip(NAMELESS).for_each(|(to, from)| *to = *from as c_char);
    }
    // SAFETY: the caller's list.
    let flags = unsafe { flags_of(&name, kernels) }.unwrap_or(FLAGS as c_uint);
    let count = interface.addrs.len();
    let entry = |(addr, prefix): &(IpAddr, u8)| Entry {
        raw: ifaddrs {
            ifa_next: kernels,
            ifa_name: null_mut(),
            ifa_flags: flags,
            ifa_addr: null_mut(),
            ifa_netmask: null_mut(),
            ifa_ifu: null_mut(),
            ifa_data: (&raw const MARK).cast_mut().cast::<c_void>(),
        },
        count,
        name,
        addr: raw(*addr, interface.number),
        netmask: raw(mask(addr, *prefix), 0),
        broadcast: raw(broadcast(addr, *prefix), 0),
    };
    let entries: Box<[Entry]> = interface.addrs.iter().map(entry).collect();
    if entries.is_empty() {
        return kernels;
    }
    // The entries must not move from now on.
    let entries = Box::leak(entries);
    let mut next = kernels;
    for (at, entry) in entries.iter_mut().enumerate().rev() {
        entry.count = count - at;
        entry.raw.ifa_next = next;
        entry.raw.ifa_name = entry.name.as_mut_ptr();
        entry.raw.ifa_addr = (&raw mut entry.addr).cast();
        entry.raw.ifa_netmask = (&raw mut entry.netmask).cast();
        if interface.addrs[at].0.is_ipv4() {
            entry.raw.ifa_ifu = (&raw mut entry.broadcast).cast();
        }
        next = &raw mut entry.raw;
    }
    entries.as_mut_ptr().cast()
}

/// Frees the stack's entries of `list`; returns the rest.
///
/// # Safety
/// `list` was returned by [`before`], is a list of the C library's, or null.
unsafe fn without_ours(list: *mut ifaddrs) -> *mut ifaddrs {
    // SAFETY: the caller's list.
    let is_ours =
        unsafe { list.as_ref() }.is_some_and(|first| std::ptr::eq(first.ifa_data.cast(), &raw const MARK));
    if !is_ours {
        return list;
    }
    let first: *mut Entry = list.cast();
    // SAFETY: the mark shows that this is the first of `count` entries of a box.
    let entries = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(first, (*first).count)) };
    entries.last().map_or(null_mut(), |last| last.raw.ifa_next)
}

/// The kernel's flags of interface `name`.
///
/// # Safety
/// `list` is a list of the C library's, or null.
unsafe fn flags_of(name: &[c_char; libc::IF_NAMESIZE], mut list: *mut ifaddrs) -> Option<c_uint> {
    // SAFETY: the caller's list.
    while let Some(entry) = unsafe { list.as_ref() } {
        // SAFETY: both end with NUL.
        if !entry.ifa_name.is_null() && unsafe { libc::strcmp(entry.ifa_name, name.as_ptr()) } == 0 {
            return Some(entry.ifa_flags);
        }
        list = entry.ifa_next;
    }
    None
}

/// Address as a sockaddr; `interface`: scope of a link-local address.
fn raw(addr: IpAddr, interface: u32) -> sockaddr_in6 {
    // SAFETY: all zeros are a valid value.
    let mut bytes: sockaddr_in6 = unsafe { std::mem::zeroed() };
    let mut len = size_of::<sockaddr_in6>() as socklen_t;
    let sockaddr_ptr: *mut sockaddr = (&raw mut bytes).cast();
    // SAFETY: `len` is the size of `bytes`.
    let written = unsafe {
        socket_address::write(SocketAddr::new(addr, 0), addr.is_ipv6(), sockaddr_ptr, &raw mut len)
    };
    debug_assert!(written.is_ok(), "the buffer is large enough");
    if matches!(addr, IpAddr::V6(addr) if addr.is_unicast_link_local()) {
        bytes.sin6_scope_id = interface;
    }
    bytes
}

fn mask(addr: &IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match addr {
        IpAddr::V4(_) => IpAddr::V4(u32::MAX.checked_shl(32_u32.saturating_sub(prefix)).unwrap_or(0).into()),
        IpAddr::V6(_) => {
            IpAddr::V6(u128::MAX.checked_shl(128_u32.saturating_sub(prefix)).unwrap_or(0).into())
        }
    }
}

fn broadcast(addr: &IpAddr, prefix: u8) -> IpAddr {
    match (addr, mask(addr, prefix)) {
        (IpAddr::V4(addr), IpAddr::V4(mask)) => IpAddr::V4((addr.to_bits() | !mask.to_bits()).into()),
        (addr, _) => *addr,
    }
}

//~ programs: `getifaddrs` lists the stack's addresses first
#[cfg(test)]
mod tests {
    use super::*;

    /// Names and addresses of a list, the kernel's included.
    unsafe fn read_list(mut list: *mut ifaddrs) -> Vec<(String, Vec<SocketAddr>)> {
        let mut all = Vec::new();
        // SAFETY: the caller's list.
        while let Some(entry) = unsafe { list.as_ref() } {
            let addrs =
                [entry.ifa_addr, entry.ifa_netmask, entry.ifa_ifu].into_iter().filter(|addr| !addr.is_null());
            let len = size_of::<sockaddr_in6>() as socklen_t;
            // SAFETY: each has this size.
            let addrs = addrs.filter_map(|addr| unsafe { socket_address::read(addr, len) }).collect();
            // SAFETY: it ends with NUL.
            let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
            all.push((name.to_string_lossy().into_owned(), addrs));
            list = entry.ifa_next;
        }
        all
    }

    #[test]
    fn our_addresses_stand_before_the_kernels_and_go_with_the_list() {
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        let interface =
            StackInterface { number: 1, addrs: vec![(addr("198.18.77.2"), 24), (addr("2001:db8::2"), 64)] };
        let mut kernels = null_mut();
        // SAFETY: the pointer is writable.
        assert_eq!(unsafe { libc::getifaddrs(&raw mut kernels) }, 0);
        // SAFETY: the list is the C library's.
        let all = unsafe { before(&interface, kernels) };
        // SAFETY: as above.
        let entries = unsafe { read_list(all) };
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let ours = ["198.18.77.2:0", "255.255.255.0:0", "198.18.77.255:0"].map(at).to_vec();
        assert_eq!(entries[0], ("lo".to_owned(), ours));
        let ours = ["[2001:db8::2]:0", "[ffff:ffff:ffff:ffff::]:0"].map(at).to_vec();
        assert_eq!(entries[1], ("lo".to_owned(), ours));
        assert!(entries[2..].iter().any(|(name, _)| name == "lo"), "the kernel's follow");
        // SAFETY: each is freed once.
        let rest = unsafe { without_ours(all) };
        assert!(std::ptr::eq(rest, kernels));
        // SAFETY: as above.
        assert!(std::ptr::eq(unsafe { without_ours(rest) }, kernels), "no stack entries");
        // SAFETY: the list is the C library's.
        unsafe { libc::freeifaddrs(kernels) };
        // SAFETY: there is no list.
        let none = unsafe { before(&StackInterface::default(), null_mut()) };
        assert!(none.is_null());
    }

    #[test]
    fn an_interface_without_a_name_has_ours() {
        let interface = StackInterface { number: 0, addrs: vec![("fe80::2".parse().unwrap(), 64)] };
        // SAFETY: the kernel's list is null.
        let all = unsafe { before(&interface, null_mut()) };
        // SAFETY: the list was just made.
        assert_eq!(unsafe { read_list(all) }[0].0, "greenwave");
        // SAFETY: freed once.
        assert!(unsafe { without_ours(all) }.is_null());
    }
}
