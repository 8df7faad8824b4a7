//! Which IPv4 addresses this machine has already.
//!
//! Read from the kernel's routing table, not found out by binding a socket: a
//! network namespace that never had an address lets a socket bind to any.

use std::net::Ipv4Addr;

/// Whether the kernel answers for `addr` in this network namespace. No, where
/// `/proc` does not tell.
#[must_use]
pub fn is_ours(addr: Ipv4Addr) -> bool {
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    local(&table).any(|local| local == addr)
}

/// Whether the kernel sends on packets that are not for this machine.
#[must_use]
pub fn forwards() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|text| text.trim() == "1")
}

/// The addresses that `/proc/net/fib_trie` marks as this machine's: a leaf is
/// a line with the address, then lines with what it is.
fn local(table: &str) -> impl Iterator<Item = Ipv4Addr> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.77.0.0/24 2 0 2
        |-- 10.77.0.0
           /24 link UNICAST
        |-- 10.77.0.1
           /32 host LOCAL
        |-- 10.77.0.255
           /32 link BROADCAST
";

    #[test]
    fn only_local_addresses_are_ours() {
        assert_eq!(local(TABLE).collect::<Vec<_>>(), [Ipv4Addr::new(10, 77, 0, 1)]);
        assert_eq!(local("").count(), 0);
    }
}
