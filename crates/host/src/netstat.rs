//! What the kernel counts of TCP in a network namespace.
//!
//! Source: `/proc/net/netstat`, linux/net/ipv4/proc.c.

/// A counter of `TcpExt`: names in one line, figures in the next.
#[must_use]
pub fn counter(netstat: &str, name: &str) -> u64 {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (Some(names), Some(figures)) = (lines.next(), lines.next()) else { return 0 };
    let at = names.split_whitespace().position(|its| its == name);
    at.and_then(|at| figures.split_whitespace().nth(at)?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name_and_nonsense_counts_nothing() {
        let netstat = "TcpExt: A ListenOverflows ListenDrops\nTcpExt: 1 5 8\nIpExt: X\nIpExt: 9\n";
        assert_eq!([counter(netstat, "ListenOverflows"), counter(netstat, "ListenDrops")], [5, 8]);
        for nonsense in ["", "x", "TCP: x", "TcpExt: ListenDrops\n"] {
            assert_eq!(counter(nonsense, "ListenDrops"), 0, "{nonsense}");
        }
    }
}
