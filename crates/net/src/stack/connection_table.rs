//! Connection table: slots of connections and a hash table that finds a segment's connection in
//! O(1).
//!
//! Slots never move. The hash table holds eight bytes per connection: the slot and 32 bits of a
//! keyed hash, so that an attacker cannot choose colliding ports.

use std::net::IpAddr;

use siphasher::sip::SipHasher13;
use wire::FourTuple;

use super::event::ConnId;
use super::tx_scheduler::TxLinks;
use crate::tcp::Connection;

/// Keyed hash of `tuple`; `purpose` separates uses of the key.
#[inline(always)] // Once for each segment; a call would cost as much as the work.
pub(crate) fn hash(secret: &[u8; 16], purpose: u8, tuple: &FourTuple) -> u64 {
    match (tuple.local, tuple.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            let mut bytes = [0; 13];
            bytes[..4].copy_from_slice(&local.octets());
            bytes[4..8].copy_from_slice(&remote.octets());
            bytes[8..10].copy_from_slice(&tuple.local_port.to_be_bytes());
            bytes[10..12].copy_from_slice(&tuple.remote_port.to_be_bytes());
            bytes[12] = purpose;
            sip(secret, &bytes)
        }
        (local, remote) => {
            let mut bytes = [0; 37];
            bytes[..16].copy_from_slice(&octets(local));
            bytes[16..32].copy_from_slice(&octets(remote));
            bytes[32..34].copy_from_slice(&tuple.local_port.to_be_bytes());
            bytes[34..36].copy_from_slice(&tuple.remote_port.to_be_bytes());
            bytes[36] = purpose;
            sip_long(secret, &bytes)
        }
    }
}

#[inline]
fn sip(secret: &[u8; 16], bytes: &[u8]) -> u64 {
    SipHasher13::new_with_key(secret).hash(bytes)
}

/// [`sip`] out of line, to keep the IPv4 path short.
#[inline(never)]
fn sip_long(secret: &[u8; 16], bytes: &[u8; 37]) -> u64 {
    sip(secret, bytes)
}

/// `addr` as an IPv6 address, IPv4 mapped.
fn octets(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    }
}

#[derive(Default)]
struct Slot {
    generation: u32,
    /// Transmit queue links of the previous connection, while the slot is empty.
    tx_links: TxLinks,
    connection: Option<Connection>,
}

const CHUNK_BITS: u32 = 6;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
type Chunk = [Slot; CHUNK_LEN];

/// Connections by slot and by tuple.
pub(crate) struct ConnectionTable {
    /// Slots in chunks: growth moves none and wastes at most one chunk.
    chunks: Vec<Box<Chunk>>,
    /// Slots used at least once.
    used: u32,
    free: Vec<u32>,
    /// Open addressing with linear probing; at most three quarters full.
    table: Vec<Entry>,
    linked: usize,
    live: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    index: u32,
}

const EMPTY: Entry = Entry { hash: 0, index: u32::MAX };

impl ConnectionTable {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), used: 0, free: Vec::new(), table: vec![EMPTY; 16], linked: 0, live: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Memory of the table in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let slots = self.chunks.len() * size_of::<Chunk>() + self.chunks.capacity() * size_of::<Box<Chunk>>();
        slots + self.table.capacity() * size_of::<Entry>() + self.free.capacity() * size_of::<u32>()
    }

    /// Puts a connection into a free slot.
    pub(crate) fn insert(&mut self, mut connection: Connection) -> ConnId {
        self.live += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            if self.used as usize == self.chunks.len() * CHUNK_LEN {
                let slots: Box<[Slot]> = (0..CHUNK_LEN).map(|_| Slot::default()).collect();
                self.chunks.push(slots.try_into().ok().expect("a chunk has CHUNK_LEN slots"));
            }
            self.used += 1;
            self.used - 1
        });
        let slot = self.slot_mut(index).expect("the slot exists");
        connection.tx_links = slot.tx_links;
        slot.connection = Some(connection);
        ConnId { index, generation: slot.generation }
    }

    /// All connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).filter_map(|slot| slot.connection.as_ref())
    }

    /// Empties a slot; its id is never valid again.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Connection> {
        let slot = self.slot_mut(index)?;
        let connection = slot.connection.take()?;
        slot.tx_links = connection.tx_links;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        self.live -= 1;
        Some(connection)
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot> {
        Some(&self.chunks.get(index as usize >> CHUNK_BITS)?[index as usize % CHUNK_LEN])
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        Some(&mut self.chunks.get_mut(index as usize >> CHUNK_BITS)?[index as usize % CHUNK_LEN])
    }

    /// Connection in slot `index`, with its id.
    #[inline]
    pub(crate) fn at(&mut self, index: u32) -> Option<(ConnId, &mut Connection)> {
        let slot = self.slot_mut(index)?;
        let id = ConnId { index, generation: slot.generation };
        slot.connection.as_mut().map(|connection| (id, connection))
    }

    /// Transmit queue links of slot `index`, with or without a connection.
    #[inline]
    pub(crate) fn tx_links(&mut self, index: u32) -> Option<&mut TxLinks> {
        let slot = self.slot_mut(index)?;
        Some(slot.connection.as_mut().map_or(&mut slot.tx_links, |connection| &mut connection.tx_links))
    }

    /// Connection with the application's handle `id`.
    #[inline]
    pub(crate) fn get(&self, id: ConnId) -> Option<&Connection> {
        let slot = self.slot(id.index).filter(|slot| slot.generation == id.generation)?;
        slot.connection.as_ref().filter(|connection| !connection.flags.detached)
    }

    /// Connection with the application's handle `id`.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        let (found, connection) = self.at(id.index)?;
        (found == id && !connection.flags.detached).then_some(connection)
    }

    /// Slot of the connection with `tuple`, whose hash is `hash`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, tuple: &FourTuple) -> Option<u32> {
        let hash = hash as u32;
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let entry = self.table[at];
            if entry.index == EMPTY.index {
                return None;
            }
            let same = |slot: &Slot| slot.connection.as_ref().is_some_and(|c| c.tuple == *tuple);
            if entry.hash == hash && self.slot(entry.index).is_some_and(same) {
                return Some(entry.index);
            }
            at = (at + 1) & mask;
        }
    }

    /// Makes slot `index` findable.
    pub(crate) fn link(&mut self, hash: u64, index: u32) {
        if (self.linked + 1) * 4 > self.table.len() * 3 {
            let previous = std::mem::take(&mut self.table);
            self.table = vec![EMPTY; previous.len() * 2];
            previous.into_iter().filter(|e| e.index != EMPTY.index).for_each(|e| self.insert_entry(e));
        }
        self.insert_entry(Entry { hash: hash as u32, index });
        self.linked += 1;
    }

    fn insert_entry(&mut self, entry: Entry) {
        let mask = self.table.len() - 1;
        let mut at = entry.hash as usize & mask;
        while self.table[at].index != EMPTY.index {
            at = (at + 1) & mask;
        }
        self.table[at] = entry;
    }

    /// Makes slot `index` no longer findable; later entries of its probe sequence move up.
    pub(crate) fn unlink(&mut self, hash: u64, index: u32) {
        let mask = self.table.len() - 1;
        let mut hole = hash as u32 as usize & mask;
        while self.table[hole].index != index {
            if self.table[hole].index == EMPTY.index {
                return;
            }
            hole = (hole + 1) & mask;
        }
        self.linked -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.table[at];
            if entry.index == EMPTY.index {
                break;
            }
            let home = entry.hash as usize & mask;
            // An entry moves up unless its home slot lies after the hole.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.table[hole] = entry;
                hole = at;
            }
        }
        self.table[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Config;
    use proptest::prelude::*;
    use queueing::Time;
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;
    use wire::tcp::Seq;

    fn tuple(remote_port: u16) -> FourTuple {
        let local = Ipv4Addr::LOCALHOST.into();
        FourTuple { local, local_port: 80, remote: local, remote_port }
    }

    /// Number of `tuples` in the fullest of `buckets` under `secret`.
    fn fullest(secret: [u8; 16], buckets: usize, tuples: impl Iterator<Item = FourTuple>) -> u32 {
        let mut count = vec![0; buckets];
        tuples.for_each(|t| count[hash(&secret, 0, &t) as usize & (buckets - 1)] += 1);
        count.into_iter().max().unwrap_or(0)
    }

    //~ attacks: flow tuples chosen without the secret collide no more than at random
    #[test]
    fn tuples_chosen_without_the_secret_collide_no_more_than_at_random() {
        let tuple_of = |n: u32| FourTuple {
            remote: Ipv4Addr::from_bits(0x0a00_0000 | n >> 12).into(),
            ..tuple(1024 + (n & 0xfff) as u16)
        };
        // 500 tuples that share one bucket of 4096 under the attacker's own secret.
        let same = |t: &FourTuple| hash(&[1; 16], 0, t) & 0xfff == 7;
        let chosen: Vec<FourTuple> = (0..4_000_000).map(tuple_of).filter(same).take(500).collect();
        assert_eq!(fullest([1; 16], 4096, chosen.iter().copied()), 500);
        assert!(fullest([2; 16], 4096, chosen.into_iter()) <= 6);
        // Three quarters of a table of neighbouring addresses, its highest load.
        assert!(fullest([2; 16], 1 << 16, (0..49_152).map(tuple_of)) <= 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        //~ stack: the connection table behaves as a map
        #[test]
        fn flows_equal_a_map(steps in prop::collection::vec((any::<bool>(), 1u16..60), 1..200)) {
            let config = Config::new([2; 6], Ipv4Addr::LOCALHOST, 8, [7; 16]);
            let (mut flows, mut model) = (ConnectionTable::new(), BTreeMap::new());
            for (add, port) in steps {
                // A poor hash, so that probing and moving up are exercised.
                let (t, h) = (tuple(port), u64::from(port / 5) * 3);
                match (add, model.get(&port)) {
                    (true, None) => {
                        let c = Connection::open(t, Seq(0), 0, Time::ZERO, &config);
                        let id = flows.insert(c);
                        flows.link(h, id.index);
                        model.insert(port, id);
                    }
                    (false, Some(&id)) => {
                        flows.unlink(h, id.index);
                        prop_assert!(flows.remove(id.index).is_some());
                        prop_assert!(flows.get(id).is_none());
                        model.remove(&port);
                    }
                    _ => {}
                }
                for port in 1..60 {
                    let found = flows.find(u64::from(port / 5) * 3, &tuple(port));
                    prop_assert_eq!(found, model.get(&port).map(|id: &ConnId| id.index));
                }
                prop_assert_eq!(flows.len(), model.len());
            }
        }
    }
}
