//! TCP counters of a network namespace.
//!
//! Source: `/proc/net/netstat`, linux/net/ipv4/proc.c.

/// A counter of `TcpExt`: names in one line, values in the next.
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
    fn nonsense_counts_nothing() {
        for nonsense in ["", "x", "TCP: x", "TcpExt: ListenDrops\n"] {
            assert_eq!(counter(nonsense, "ListenDrops"), 0, "{nonsense}");
        }
    }
}
