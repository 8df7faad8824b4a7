//! Assignment of nodes to partitions, and the lookahead between partitions.
//!
//! Hosts stay with their switch if there are at least as many such switches as partitions;
//! other switches are spread over all. Two partitions are the hosts, which run TCP, and the
//! switches, if host cables are at least as long as those between switches. The assignment
//! affects only the run time.

use queueing::{Bytes, Span};

use super::packet::ACK_BYTES;
use super::topology::{Node, Wiring};

/// Assignment of a fabric's nodes to partitions.
pub(super) struct Partitioning {
    /// Number of partitions.
    pub partitions: u32,
    /// Partition of each node.
    pub partition_of: Vec<u32>,
    /// Lookahead: minimum latency of a packet from one partition to another.
    pub lookahead: Span,
}

impl Partitioning {
    /// Assigns `wiring` to at most `partitions` partitions, not more than there are hosts.
    pub fn new(wiring: &Wiring, partitions: usize) -> Self {
        let partitions = partitions.clamp(1, wiring.hosts as usize) as u32;
        let by_switch = Self::cut(wiring, partitions, by_switch(wiring, partitions));
        if partitions != 2 {
            return by_switch;
        }
        let hosts =
            Self::cut(wiring, 2, (0..wiring.nodes).map(|node| (node < wiring.hosts).into()).collect());
        if hosts.lookahead >= by_switch.lookahead { hosts } else { by_switch }
    }

    fn cut(wiring: &Wiring, partitions: u32, partition_of: Vec<u32>) -> Self {
        let cut_links = wiring
            .lines
            .iter()
            .filter(|line| partition_of[line.from as usize] != partition_of[line.to as usize]);
        let fastest =
            cut_links.map(|line| line.delay + line.rate.time_for(Bytes::new(ACK_BYTES.into()))).min();
        Self { partitions, partition_of, lookahead: fastest.unwrap_or(Span::MAX) }
    }
}

/// Partition of each node; hosts stay with their switch if there are enough switches.
fn by_switch(wiring: &Wiring, partitions: u32) -> Vec<u32> {
    // Switch of each host.
    let mut switch_of = vec![wiring.hosts; wiring.hosts as usize];
    for line in wiring.lines.iter().filter(|line| line.from < wiring.hosts) {
        switch_of[line.from as usize] = line.to;
    }
    let mut edges = switch_of.clone();
    edges.sort_unstable();
    edges.dedup();
    let share = |index: usize, of: usize| (index * partitions as usize / of.max(1)) as u32;
    let with_hosts = edges.len() >= partitions as usize;
    let edge = |node: Node| edges.binary_search(&node).ok();
    let others = (wiring.nodes - wiring.hosts) as usize - if with_hosts { edges.len() } else { 0 };
    let mut other = 0..others;
    let partition_of = |node: Node| match switch_of.get(node as usize) {
        Some(_) if !with_hosts => share(node as usize, wiring.hosts as usize),
        Some(&switch) => edge(switch).map_or(0, |index| share(index, edges.len())),
        None => match edge(node).filter(|_| with_hosts) {
            Some(index) => share(index, edges.len()),
            None => share(other.next().unwrap_or_default(), others),
        },
    };
    (0..wiring.nodes).map(partition_of).collect()
}

//~ fabric: a run on 1, 2 or 3 threads gives the same flows, counters and events
#[cfg(test)]
mod tests {
    use super::super::topology::{Cable, Topology};
    use super::*;

    const HOST: Cable = Cable { gbps: 10, delay: Span::from_micros(2) };
    const CORE: Cable = Cable { gbps: 40, delay: Span::from_nanos(200) };

    #[test]
    fn hosts_share_their_switchs_partition_and_partitions_are_balanced() {
        let fabric = Topology::LeafSpine { leaves: 4, spines: 3, hosts_per_leaf: 2, host: HOST, core: CORE };
        let partitioning = Partitioning::new(&fabric.wire(), 3);
        assert_eq!(partitioning.partition_of, [0, 0, 0, 0, 1, 1, 2, 2, 0, 0, 1, 2, 0, 1, 2]);
        assert_eq!(
            partitioning.lookahead,
            Span::from_nanos(208),
            "40 bytes and the delay between a leaf and a spine"
        );
    }

    #[test]
    fn two_partitions_are_cut_at_the_longer_cables() {
        let fabric = |host, core| {
            let fabric = Topology::LeafSpine { leaves: 2, spines: 1, hosts_per_leaf: 2, host, core }.wire();
            Partitioning::new(&fabric, 2)
        };
        let partitioning = fabric(HOST, CORE);
        assert_eq!(
            (partitioning.partition_of, partitioning.lookahead),
            (vec![1, 1, 1, 1, 0, 0, 0], Span::from_nanos(2_032))
        );
        assert_eq!(fabric(CORE, HOST).partition_of, [0, 0, 1, 1, 0, 1, 0]);
    }

    #[test]
    fn one_switch_is_cut_from_its_hosts() {
        let star = Topology::Star { hosts: 4, host: HOST }.wire();
        assert_eq!(Partitioning::new(&star, 3).partition_of, [0, 0, 1, 2, 0]);
    }

    #[test]
    fn partitions_are_at_most_hosts_and_one_partition_needs_no_barrier() {
        let wiring = Topology::Star { hosts: 2, host: HOST }.wire();
        assert_eq!(Partitioning::new(&wiring, 9).partitions, 2);
        let unpartitioned = Partitioning::new(&wiring, 0);
        assert_eq!((unpartitioned.partitions, unpartitioned.lookahead), (1, Span::MAX));
    }
}
