//! Topologies and their shortest paths.

use std::collections::HashMap;

use queueing::{Rate, Span};

/// Network of hosts and switches.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Topology {
    /// Hosts at one switch.
    Star {
        /// Number of hosts, at least 2.
        hosts: u32,
        /// Cables of hosts.
        host: Cable,
    },
    /// Two switches joined by one cable; hosts with even numbers are at the first.
    Dumbbell {
        /// Hosts per switch.
        hosts_per_side: u32,
        /// Cables of hosts.
        host: Cable,
        /// Cable between the switches.
        core: Cable,
    },
    /// Leaf switches with hosts, each cabled to every spine.
    LeafSpine {
        /// Leaf switches.
        leaves: u32,
        /// Spine switches.
        spines: u32,
        /// Hosts per leaf.
        hosts_per_leaf: u32,
        /// Cables between hosts and leaves.
        host: Cable,
        /// Cables between leaves and spines.
        core: Cable,
    },
    /// Three layers of switches with `k` ports: `k` pods of `k/2` edge switches with `k/2`
    /// hosts each and `k/2` aggregation switches, and `(k/2)²` core switches.
    /// Source: Al-Fares et al., SIGCOMM '08 §2.2.
    FatTree {
        /// Ports per switch, even.
        k: u32,
        /// Cables of hosts.
        host: Cable,
        /// Cables between switches.
        core: Cable,
    },
}

/// Maximum number of hosts.
const HOSTS_MAX: u32 = 4096;

/// Full-duplex cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// Line rate of each direction, in Gbit/s.
    pub gbps: u64,
    /// Delay without serialisation, processing at both ends included.
    #[serde(deserialize_with = "crate::serde_text::text")]
    pub delay: Span,
}

/// Host or switch; hosts are numbered first.
pub type Node = u32;

/// One direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectedLink {
    /// Sending node.
    pub from: Node,
    /// Receiving node.
    pub to: Node,
    /// Line rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Span,
}

/// Topology with its cables and shortest paths.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// Number of hosts; they are nodes 0..hosts.
    pub hosts: u32,
    /// Number of hosts and switches.
    pub nodes: u32,
    /// Every direction of every cable.
    pub lines: Vec<DirectedLink>,
    next_hops: NextHops,
}

/// Next hops on shortest paths. Looked up once per packet and node, hence compact: a host has
/// one cable and no table.
#[derive(Clone, Debug)]
struct NextHops {
    /// Outgoing line of each host.
    out: Vec<u32>,
    /// Next-hop sets of switches, concatenated. Few distinct sets exist, since adjacent hosts
    /// share them.
    lines: Vec<u32>,
    /// Start and end of each set in `lines`.
    sets: Vec<[u32; 2]>,
    /// Set index per switch and host.
    set_of: Vec<u32>,
}

impl Wiring {
    /// Lines from `node` on shortest paths to `host`, another node.
    #[must_use]
    pub fn next_hops(&self, node: Node, host: Node) -> &[u32] {
        let NextHops { out, lines, sets, set_of } = &self.next_hops;
        if node < self.hosts {
            return &out[node as usize..=node as usize];
        }
        let set = set_of[(node - self.hosts) as usize * self.hosts as usize + host as usize];
        let [start, end] = sets[set as usize];
        &lines[start as usize..end as usize]
    }
}

impl Topology {
    /// Number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        match *self {
            Self::Star { hosts, .. } => hosts,
            Self::Dumbbell { hosts_per_side, .. } => 2 * hosts_per_side,
            Self::LeafSpine { leaves, hosts_per_leaf, .. } => leaves * hosts_per_leaf,
            Self::FatTree { k, .. } => k.pow(3) / 4,
        }
    }

    /// Reason why the topology cannot be built, if so.
    pub(super) fn problem(&self) -> Option<String> {
        let counts: &[(&str, u32)] = match self {
            Self::Star { hosts, .. } => &[("hosts", *hosts)],
            Self::Dumbbell { hosts_per_side, .. } => &[("hosts_per_side", *hosts_per_side)],
            Self::FatTree { k, .. } if !(2..=24).contains(k) || k % 2 == 1 => {
                return Some(format!("topology: k {k} is not even and within 2..=24"));
            }
            Self::FatTree { .. } => &[],
            Self::LeafSpine { leaves, spines, hosts_per_leaf, .. } => {
                &[("leaves", *leaves), ("spines", *spines), ("hosts_per_leaf", *hosts_per_leaf)]
            }
        };
        if let Some((name, count)) = counts.iter().find(|(_, count)| !(1..=HOSTS_MAX).contains(count)) {
            return Some(format!("topology: {name} {count} is outside 1..={HOSTS_MAX}"));
        }
        match self.hosts() {
            1 => return Some("topology: one host has no peer, at least 2 are required".to_owned()),
            hosts if hosts > HOSTS_MAX => {
                return Some(format!("topology: {hosts} hosts are more than {HOSTS_MAX}"));
            }
            _ => {}
        }
        let cables = match self {
            Self::Star { host, .. } => [host, host],
            Self::Dumbbell { host, core, .. }
            | Self::LeafSpine { host, core, .. }
            | Self::FatTree { host, core, .. } => [host, core],
        };
        let rate = cables.iter().find(|cable| !(1..=10_000).contains(&cable.gbps))?.gbps;
        Some(format!("topology: gbps {rate} is outside 1..=10000"))
    }

    /// Builds the cables and finds shortest paths.
    #[must_use]
    pub fn wire(&self) -> Wiring {
        let hosts = self.hosts();
        let mut cables: Vec<(Node, Node, Cable)> = Vec::new();
        let nodes = match *self {
            Self::Star { host, .. } => {
                cables.extend((0..hosts).map(|node| (node, hosts, host)));
                hosts + 1
            }
            Self::Dumbbell { host, core, .. } => {
                cables.extend((0..hosts).map(|node| (node, hosts + node % 2, host)));
                cables.push((hosts, hosts + 1, core));
                hosts + 2
            }
            Self::FatTree { k, host, core } => {
                let half = k / 2;
                let (edges, middles, tops) = (hosts, hosts + k * half, hosts + 2 * k * half);
                cables.extend((0..hosts).map(|node| (node, edges + node / half, host)));
                for pod in 0..k {
                    for (edge, middle) in pairs(half) {
                        cables.push((edges + pod * half + edge, middles + pod * half + middle, core));
                    }
                    // The same aggregation switch of every pod connects to the same core
                    // switches.
                    for (middle, top) in pairs(half) {
                        cables.push((middles + pod * half + middle, tops + middle * half + top, core));
                    }
                }
                tops + half * half
            }
            Self::LeafSpine { leaves, spines, hosts_per_leaf, host, core } => {
                cables.extend((0..hosts).map(|node| (node, hosts + node / hosts_per_leaf, host)));
                for leaf in 0..leaves {
                    cables.extend((0..spines).map(|spine| (hosts + leaf, hosts + leaves + spine, core)));
                }
                hosts + leaves + spines
            }
        };
        let line = |(from, to, cable): (Node, Node, Cable)| DirectedLink {
            from,
            to,
            rate: Rate::from_gbps(cable.gbps),
            delay: cable.delay,
        };
        let lines: Vec<DirectedLink> =
            cables.into_iter().flat_map(|(a, b, cable)| [line((a, b, cable)), line((b, a, cable))]).collect();
        let next_hops = next_hops(hosts, nodes, &lines);
        Wiring { hosts, nodes, lines, next_hops }
    }
}

/// All pairs of numbers below `n`.
fn pairs(n: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..n).flat_map(move |a| (0..n).map(move |b| (a, b)))
}

/// Next hops per switch and host: breadth-first search from each host.
fn next_hops(hosts: u32, nodes: u32, lines: &[DirectedLink]) -> NextHops {
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
    for (number, line) in lines.iter().enumerate() {
        into[line.to as usize].push(number as u32);
    }
    let mut out: Vec<(Node, u32)> = (0..)
        .zip(lines)
        .filter(|(_, line)| line.from < hosts)
        .map(|(number, line)| (line.from, number))
        .collect();
    out.sort_unstable();
    assert!(out.iter().map(|&(host, _)| host).eq(0..hosts), "every host has one cable");
    let switches = (nodes - hosts) as usize;
    let out = out.into_iter().map(|(_, number)| number).collect();
    let mut next_hops =
        NextHops { out, lines: Vec::new(), sets: Vec::new(), set_of: vec![0; switches * hosts as usize] };
    let mut numbers: HashMap<Vec<u32>, u32> = HashMap::new();
    // Next hops to one host, per switch.
    let mut found = vec![Vec::new(); switches];
    for host in 0..hosts {
        let mut distance = vec![u32::MAX; nodes as usize];
        distance[host as usize] = 0;
        let mut frontier = std::collections::VecDeque::from([host]);
        while let Some(node) = frontier.pop_front() {
            for &number in &into[node as usize] {
                let from = lines[number as usize].from;
                // Hosts do not forward.
                if from < hosts {
                    continue;
                }
                if distance[from as usize] == u32::MAX {
                    distance[from as usize] = distance[node as usize] + 1;
                    frontier.push_back(from);
                }
                if distance[from as usize] == distance[node as usize] + 1 {
                    found[(from - hosts) as usize].push(number);
                }
            }
        }
        for (switch, found) in found.iter_mut().enumerate() {
            let number = numbers.get(found.as_slice()).copied().unwrap_or_else(|| {
                let start = next_hops.lines.len() as u32;
                next_hops.lines.extend_from_slice(found);
                next_hops.sets.push([start, next_hops.lines.len() as u32]);
                numbers.insert(found.clone(), next_hops.sets.len() as u32 - 1);
                next_hops.sets.len() as u32 - 1
            });
            next_hops.set_of[switch * hosts as usize + host as usize] = number;
            found.clear();
        }
    }
    next_hops
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cable(gbps: u64) -> Cable {
        Cable { gbps, delay: Span::from_micros(1) }
    }

    /// Length of the paths from `from` to `to`, which must all be equal, and their number.
    fn walk(wiring: &Wiring, from: Node, to: Node) -> (usize, usize) {
        if from == to {
            return (0, 1);
        }
        let next_hops =
            wiring.next_hops(from, to).iter().map(|&line| walk(wiring, wiring.lines[line as usize].to, to));
        let (hops, counts): (Vec<_>, Vec<_>) = next_hops.unzip();
        assert!(hops.windows(2).all(|pair| pair[0] == pair[1]), "{from} to {to}: {hops:?}");
        (1 + hops[0], counts.iter().sum())
    }

    //~ fabric: every host of every topology reaches every other on all shortest paths
    #[test]
    fn every_host_reaches_every_other_on_all_shortest_paths() {
        let star = Topology::Star { hosts: 5, host: cable(10) }.wire();
        const SPINES: u32 = 3;
        let fabric = Topology::LeafSpine {
            leaves: 4,
            spines: SPINES,
            hosts_per_leaf: 2,
            host: cable(10),
            core: cable(20),
        };
        let fabric = fabric.wire();
        let dumbbell = Topology::Dumbbell { hosts_per_side: 3, host: cable(10), core: cable(40) }.wire();
        let tree = Topology::FatTree { k: 6, host: cable(10), core: cable(10) }.wire();
        assert_eq!((tree.hosts, tree.nodes), (54, 54 + 18 + 18 + 9));
        assert_eq!(tree.lines.len(), 2 * 3 * 54, "as many cables in each layer");
        // Hops and paths, by common switch, common pod, or neither.
        type Expected = fn(Node, Node) -> (usize, usize);
        let expected: [(&Wiring, Expected); 3] = [
            (&star, |_, _| (2, 1)),
            (&fabric, |a, b| if a / 2 == b / 2 { (2, 1) } else { (4, SPINES as usize) }),
            (&tree, |a, b| match (a / 3 == b / 3, a / 9 == b / 9) {
                (true, _) => (2, 1),
                (_, true) => (4, 3),
                _ => (6, 9),
            }),
        ];
        for (wiring, expected) in expected {
            for (from, to) in pairs(wiring.hosts).filter(|(from, to)| from != to) {
                assert_eq!(walk(wiring, from, to), expected(from, to), "{from} to {to}");
            }
        }
        for (from, to) in pairs(6).filter(|(from, to)| from != to) {
            let hops = if from % 2 == to % 2 { 2 } else { 3 };
            assert_eq!(walk(&dumbbell, from, to), (hops, 1), "{from} to {to}");
        }
    }

    //~ fabric: every host of every topology reaches every other on all shortest paths
    /// Every pod has as many uplinks as hosts: no oversubscription unless cables are slower.
    #[test]
    fn a_fat_tree_can_carry_what_its_hosts_send() {
        for k in [2, 4, 8] {
            let tree = Topology::FatTree { k, host: cable(10), core: cable(10) }.wire();
            let up = |line: &&DirectedLink| {
                line.from < tree.nodes - (k / 2).pow(2) && line.to >= tree.nodes - (k / 2).pow(2)
            };
            assert_eq!(tree.lines.iter().filter(up).count() as u32, tree.hosts, "k {k}");
        }
    }

    #[test]
    fn an_invalid_setting_is_refused_with_its_value() {
        let problem = |hosts, gbps| Topology::Star { hosts, host: cable(gbps) }.problem();
        assert!(problem(0, 10).unwrap().contains("hosts 0"));
        assert!(problem(1, 10).unwrap().contains("one host"));
        assert!(problem(2, 0).unwrap().contains("gbps 0"));
        assert_eq!(problem(2, 10), None);
        let tree = |k| Topology::FatTree { k, host: cable(10), core: cable(10) }.problem();
        assert!(
            [1, 5, 26].iter().all(|&k| tree(k).is_some_and(|problem| problem.contains(&format!("k {k}"))))
        );
        assert_eq!(tree(24), None);
        let leaves = |leaves, hosts_per_leaf| {
            let (host, core) = (cable(10), cable(0));
            Topology::LeafSpine { leaves, spines: 2, hosts_per_leaf, host, core }.problem()
        };
        assert!(leaves(4096, 4096).unwrap().contains("16777216 hosts"));
        assert!(leaves(2, 2).unwrap().contains("gbps 0"));
    }
}
