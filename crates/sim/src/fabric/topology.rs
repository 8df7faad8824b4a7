//! Who is wired to whom, and which way leads where.

use std::collections::{BTreeMap, VecDeque};

use queueing::{Rate, Span};

/// A network of hosts and switches.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Topology {
    /// Hosts at one switch.
    Star {
        /// How many hosts, 2 and more.
        hosts: u32,
        /// Their cables.
        host: Cable,
    },
    /// Switches with hosts, each wired to every spine.
    LeafSpine {
        /// Switches with hosts.
        leaves: u32,
        /// Switches between them.
        spines: u32,
        /// Hosts at each leaf.
        hosts_per_leaf: u32,
        /// Cables between hosts and leaves.
        host: Cable,
        /// Cables between leaves and spines.
        core: Cable,
    },
}

/// A full-duplex cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// Line rate of each direction, in Gbit/s.
    pub gbps: u64,
    /// Time on it without serialisation, what its ends take included.
    #[serde(deserialize_with = "crate::text::text")]
    pub delay: Span,
}

/// A host or a switch; hosts come first, in order.
pub type Node = u32;

/// One direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Who sends.
    pub from: Node,
    /// Who receives.
    pub to: Node,
    /// How fast.
    pub rate: Rate,
    /// Until the last bit that was sent has arrived.
    pub delay: Span,
}

/// A topology, wired.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// Hosts are nodes 0 to this.
    pub hosts: u32,
    /// Hosts and switches.
    pub nodes: u32,
    /// Every direction of every cable.
    pub lines: Vec<Line>,
    /// Per node and host, which of `choices` leads there.
    ways: Vec<u32>,
    /// Sets of lines, each once: a host has one, a leaf one for each of its
    /// hosts and one for all others.
    choices: Vec<Vec<u32>>,
}

impl Wiring {
    /// The lines from `node` that lead to `host` on a shortest way.
    #[must_use]
    pub fn ways(&self, node: Node, host: Node) -> &[u32] {
        &self.choices[self.ways[(node * self.hosts + host) as usize] as usize]
    }
}

impl Topology {
    /// Number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        match *self {
            Self::Star { hosts, .. } => hosts,
            Self::LeafSpine { leaves, hosts_per_leaf, .. } => leaves * hosts_per_leaf,
        }
    }

    /// Why this cannot be built, if so.
    pub(super) fn problem(&self) -> Option<String> {
        let counts: &[(&str, u32)] = match self {
            Self::Star { hosts, .. } => &[("hosts", *hosts)],
            Self::LeafSpine { leaves, spines, hosts_per_leaf, .. } => {
                &[("leaves", *leaves), ("spines", *spines), ("hosts_per_leaf", *hosts_per_leaf)]
            }
        };
        if let Some((name, count)) = counts.iter().find(|(_, count)| !(1..=4096).contains(count)) {
            return Some(format!("topology: {name} {count} is outside 1..=4096"));
        }
        if self.hosts() < 2 {
            return Some("topology: one host has nobody to send to, 2 and more have".to_owned());
        }
        let cables = match self {
            Self::Star { host, .. } => [host, host],
            Self::LeafSpine { host, core, .. } => [host, core],
        };
        let rate = cables.iter().find(|cable| !(1..=10_000).contains(&cable.gbps))?.gbps;
        Some(format!("topology: gbps {rate} is outside 1..=10000"))
    }

    /// Lays the cables and finds the ways.
    #[must_use]
    pub fn wire(&self) -> Wiring {
        let hosts = self.hosts();
        let mut cables: Vec<(Node, Node, Cable)> = Vec::new();
        let nodes = match *self {
            Self::Star { host, .. } => {
                cables.extend((0..hosts).map(|node| (node, hosts, host)));
                hosts + 1
            }
            Self::LeafSpine { leaves, spines, hosts_per_leaf, host, core } => {
                cables.extend((0..hosts).map(|node| (node, hosts + node / hosts_per_leaf, host)));
                for leaf in 0..leaves {
                    cables.extend((0..spines).map(|spine| (hosts + leaf, hosts + leaves + spine, core)));
                }
                hosts + leaves + spines
            }
        };
        let line = |(from, to, cable): (Node, Node, Cable)| Line {
            from,
            to,
            rate: Rate::from_gbps(cable.gbps),
            delay: cable.delay,
        };
        let lines: Vec<Line> =
            cables.into_iter().flat_map(|(a, b, cable)| [line((a, b, cable)), line((b, a, cable))]).collect();
        let (ways, choices) = ways(hosts, nodes, &lines);
        Wiring { hosts, nodes, lines, ways, choices }
    }
}

/// Per node and host, the lines to neighbours that are one nearer: from each
/// host back through the network, breadth first.
fn ways(hosts: u32, nodes: u32, lines: &[Line]) -> (Vec<u32>, Vec<Vec<u32>>) {
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
    for (number, line) in lines.iter().enumerate() {
        into[line.to as usize].push(number as u32);
    }
    let mut ways = vec![0; (nodes * hosts) as usize];
    let mut choices = BTreeMap::new();
    let mut found = vec![Vec::new(); nodes as usize];
    for host in 0..hosts {
        found.iter_mut().for_each(Vec::clear);
        let mut far = vec![u32::MAX; nodes as usize];
        far[host as usize] = 0;
        let mut ring = VecDeque::from([host]);
        while let Some(node) = ring.pop_front() {
            for &number in &into[node as usize] {
                let from = lines[number as usize].from;
                // Nobody is reached through another host.
                if from < hosts && from != host && node < hosts {
                    continue;
                }
                if far[from as usize] == u32::MAX {
                    far[from as usize] = far[node as usize] + 1;
                    ring.push_back(from);
                }
                if far[from as usize] == far[node as usize] + 1 {
                    found[from as usize].push(number);
                }
            }
        }
        for (node, found) in found.iter().enumerate() {
            let next = choices.len() as u32;
            let choice = match choices.get(found) {
                Some(&known) => known,
                None => *choices.entry(found.clone()).or_insert(next),
            };
            ways[node * hosts as usize + host as usize] = choice;
        }
    }
    let mut in_order: Vec<_> = choices.into_iter().collect();
    in_order.sort_by_key(|&(_, number)| number);
    (ways, in_order.into_iter().map(|(choice, _)| choice).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cable(gbps: u64) -> Cable {
        Cable { gbps, delay: Span::from_micros(1) }
    }

    /// Hops of the ways from `from` to `to`, all of the same length, and how many there are.
    fn walk(wiring: &Wiring, from: Node, to: Node) -> (usize, usize) {
        if from == to {
            return (0, 1);
        }
        let ways = wiring.ways(from, to).iter().map(|&line| walk(wiring, wiring.lines[line as usize].to, to));
        let (hops, counts): (Vec<_>, Vec<_>) = ways.unzip();
        assert!(hops.windows(2).all(|pair| pair[0] == pair[1]), "{from} to {to}: {hops:?}");
        (1 + hops[0], counts.iter().sum())
    }

    #[test]
    fn every_host_reaches_every_other_on_all_shortest_ways() {
        let star = Topology::Star { hosts: 5, host: cable(10) }.wire();
        let spines = 3;
        let fabric =
            Topology::LeafSpine { leaves: 4, spines, hosts_per_leaf: 2, host: cable(10), core: cable(20) };
        let fabric = fabric.wire();
        for (wiring, leaf_of) in [(&star, (|_| 0) as fn(Node) -> Node), (&fabric, |host| host / 2)] {
            for from in 0..wiring.hosts {
                for to in (0..wiring.hosts).filter(|&to| to != from) {
                    let expected = if leaf_of(from) == leaf_of(to) { (2, 1) } else { (4, spines as usize) };
                    assert_eq!(walk(wiring, from, to), expected, "{from} to {to}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_built_is_refused_with_its_value() {
        let problem = |hosts, gbps| Topology::Star { hosts, host: cable(gbps) }.problem();
        assert!(problem(0, 10).unwrap().contains("hosts 0"));
        assert!(problem(1, 10).unwrap().contains("one host"));
        assert!(problem(2, 0).unwrap().contains("gbps 0"));
        assert_eq!(problem(2, 10), None);
    }
}
