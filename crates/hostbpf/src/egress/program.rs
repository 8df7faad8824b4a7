//! The classifier: the BPF program that runs for every outgoing packet.
//!
//! It parses the flow, looks up the bytes sent so far, picks the level, and writes the class of that
//! level's queue to `skb->priority`, which HTB, prio and ets all read first. The policy's values are
//! constants in the program, which is assembled for each egress. The same decision in Rust is
//! [`Model`](super::Model); shared test vectors compare the two.
//!
//! `tc_classid` would be another way to name a class, but at clsact it ends up in `tc_index`, which
//! these qdiscs do not read.
//!
//! Source: linux/bpf.h; net/sched's `htb_classify`, `prio_classify`, `ets_classify`.

use super::backlog::{ARRIVED, DRAINED, EMPTY, LEVEL_LEN, LEVELS};
use super::flow_key::{ARP, ETHERTYPE, FACTOR, IPV4, IPV6, PORTS, PROTOCOL, TAG, TYPE_AT, VLAN, WITH_PORTS};
use super::policy::Policy;
use crate::bpf::asm::{Assembler, Condition, LOAD_BYTES, LOOKUP, Label, NOW, Op, Reg, UPDATE, Width};
use queueing::egress::{Line, NS_BITS};

mod header;

/// Counter indices: the levels first, then these.
pub(super) const COUNTED_PINNED: i32 = 8;
pub(super) const COUNTED_OTHER: i32 = 9;
/// Counter of new flows, not of packets.
pub(super) const COUNTED_FLOWS: i32 = 10;
/// Counter of packets larger than a quantum.
pub(super) const COUNTED_LARGE: i32 = 11;
pub(super) const COUNTERS: u32 = 12;
/// Bytes of a counter: packets, bytes.
pub(super) const COUNTER_LEN: usize = 16;
/// Bytes of a flow's entry, and offsets within: bytes sent; last packet, in ns since boot; queue; line
/// time that waited at its level, and the level's service, at the last packet.
pub(super) const FLOW_LEN: usize = 40;
pub(super) const SENT: i16 = 0;
pub(super) const LAST: i16 = 8;
const OWN_QUEUE: i16 = 16;
pub(super) const WAITING: i16 = 24;
pub(super) const SERVED: i16 = 32;
pub(super) const KEY_LEN: usize = 40;

/// Numbering of levels and queues as classes of a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Classes {
    /// The qdisc's major number.
    pub(super) major: u16,
    /// Minor number of the first level's first queue.
    pub(super) base: u16,
    /// Distance between levels.
    pub(super) step: u16,
    /// Queues per level.
    pub(super) buckets: u16,
}

impl Classes {
    /// Minor number of a queue.
    pub(super) fn minor(&self, level: usize, bucket: u16) -> u16 {
        self.base + level as u16 * self.step + bucket
    }

    /// Level of class `minor`, if it is one of ours.
    pub(super) fn level(&self, minor: u16) -> Option<usize> {
        let beyond = minor.checked_sub(self.base)?;
        (beyond % self.step < self.buckets).then_some(usize::from(beyond / self.step))
    }
}

/// Inputs of a program besides the policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wiring {
    pub(super) classes: Classes,
    /// Hash seed for pinned packets.
    pub(super) seed: u64,
    /// Constants of the backlog estimate.
    pub(super) line: Line,
    /// Largest packet that fits a queue's quantum, in bytes.
    pub(super) quantum: u32,
    /// File descriptors of the maps.
    pub(super) flows: i32,
    pub(super) counts: i32,
    pub(super) backlog: i32,
    pub(super) notes: i32,
}

/// Callee-saved registers.
const CONTEXT: Reg = Reg::R6;
/// Offset of the IP header.
const AT: Reg = Reg::R7;
/// Offset of the transport header; later a DSCP.
const KEPT: Reg = Reg::R8;
const LEVEL: Reg = Reg::R9;
const STACK: Reg = Reg::R10;

/// Stack offsets.
const KEY: i16 = -(KEY_LEN as i16);
const SEEN: i16 = KEY - FLOW_LEN as i16;
const HEADER: i16 = SEEN - 40;
const DSCP: i16 = HEADER - 4;
const VERSION: i16 = DSCP - 4;
const INDEX: i16 = VERSION - 4;
const QUEUE: i16 = INDEX - 12;
/// The time, the packet's transmission time, and the pointer to the backlog's state.
const TIME: i16 = QUEUE - 8;
const COST: i16 = TIME - 8;
const STATE: i16 = COST - 8;

/// Offsets in the context, `struct __sk_buff`.
const PRIORITY: i16 = 32;
const WIRE_LEN: i16 = 160;
const GSO_SEGS: i16 = 164;

/// Verdict `TC_ACT_UNSPEC`: continue with the next filter.
pub(super) const NEXT_FILTER: i32 = -1;
/// A value that no DSCP has.
const NO_DSCP: i32 = 64;

/// The program of `policy`.
///
/// # Panics
/// The policy was not validated.
pub(super) fn assemble(policy: &Policy, wiring: &Wiring) -> Vec<u64> {
    let mut a = Assembler::default();
    let [ip, v6, ports, pins, other, counted, out, end] = std::array::from_fn(|_| a.label());
    a.mov(CONTEXT, Reg::R1);
    // The metadata is never read here; the reference keeps its map alive as long as the program.
    a.map(Reg::R1, wiring.notes);
    a.set(LEVEL, 0);
    for at in (KEY..0).step_by(8) {
        a.store_value(Width::Double, STACK, at, 0);
    }
    a.store_value(Width::Word, STACK, DSCP, NO_DSCP);
    a.store_value(Width::Word, STACK, VERSION, 0);
    a.store_value(Width::Double, STACK, QUEUE, 0);
    a.call(NOW);
    a.store(Width::Double, STACK, TIME, Reg::R0);
    a.load(Width::Word, Reg::R1, CONTEXT, WIRE_LEN);
    a.set_wide(Reg::R2, NS_BITS);
    a.alu(Op::Mul, Reg::R1, Reg::R2);
    a.set_wide(Reg::R2, wiring.line.rate_bits);
    a.alu(Op::Div, Reg::R1, Reg::R2);
    a.store(Width::Double, STACK, COST, Reg::R1);
    a.store_value(Width::Word, STACK, INDEX, 0);
    a.map(Reg::R1, wiring.backlog);
    address(&mut a, Reg::R2, INDEX);
    a.call(LOOKUP);
    // Never taken: an array has its first entry.
    a.jump_null(Reg::R0, end);
    a.store(Width::Double, STACK, STATE, Reg::R0);

    let ethertype = KEY + ETHERTYPE as i16;
    load_bytes(&mut a, From::Value(TYPE_AT as i32), ethertype, 2);
    a.set(AT, TYPE_AT as i32 + 2);
    a.load(Width::Half, Reg::R1, STACK, ethertype);
    let tagged = a.label();
    VLAN.iter().for_each(|&tag| a.jump_if(Condition::Equal, Reg::R1, half(tag), tagged));
    a.jump(ip);
    a.bind(tagged);
    load_bytes(&mut a, From::Value((TYPE_AT + TAG) as i32), ethertype, 2);
    a.set(AT, (TYPE_AT + TAG) as i32 + 2);
    a.bind(ip);
    a.load(Width::Half, Reg::R1, STACK, ethertype);
    a.jump_if(Condition::Equal, Reg::R1, half(IPV6), v6);
    let v4 = a.label();
    a.jump_if(Condition::Equal, Reg::R1, half(IPV4), v4);
    a.jump_if(Condition::NotEqual, Reg::R1, half(ARP), other);
    count(&mut a, wiring, Counter::Fixed(COUNTED_OTHER));
    a.jump(out);

    a.bind(v4);
    header::ipv4(&mut a, other, pins);
    a.jump(ports);
    a.bind(v6);
    header::ipv6(&mut a, other);
    a.bind(ports);
    a.load(Width::Byte, Reg::R1, STACK, KEY + PROTOCOL as i16);
    let has_ports = a.label();
    WITH_PORTS.iter().for_each(|&protocol| a.jump_if(Condition::Equal, Reg::R1, protocol.into(), has_ports));
    a.jump(pins);
    a.bind(has_ports);
    // Otherwise zeros remain.
    load_bytes(&mut a, From::Reg(KEPT), KEY + PORTS as i16, 4);
    a.jump(pins);

    a.bind(other);
    count(&mut a, wiring, Counter::Fixed(COUNTED_OTHER));
    a.bind(pins);
    pin(&mut a, policy, wiring, out);
    sink(&mut a, policy, wiring, counted);
    a.bind(counted);
    if !policy.dscp.is_empty() {
        header::rewrite(&mut a, &policy.dscp, out);
    }
    a.bind(out);
    count(&mut a, wiring, Counter::Level);
    note_large(&mut a, wiring);
    note_arrival(&mut a, policy, &wiring.line);
    name_class(&mut a, wiring);
    a.bind(end);
    a.set(Reg::R0, NEXT_FILTER);
    a.exit();
    a.finish()
}

/// Jumps to `out` with the level, if the sender has pinned the packet.
fn pin(a: &mut Assembler, policy: &Policy, wiring: &Wiring, out: Label) {
    let levels = policy.levels();
    let pinned: Vec<Label> = (0..levels).map(|_| a.label()).collect();
    let by_dscp = policy.pin_dscp.iter().map(|(dscp, level)| (DSCP, u32::from(*dscp), *level));
    let by_priority = policy.pin_priority.iter().map(|(priority, level)| (PRIORITY, *priority, *level));
    let pins: Vec<_> = by_priority.chain(by_dscp).collect();
    let mut last = None;
    for &(field, value, level) in &pins {
        if last != Some(field) {
            let base = if field == PRIORITY { CONTEXT } else { STACK };
            a.load(Width::Word, Reg::R1, base, field);
            last = Some(field);
        }
        a.jump_if(Condition::Equal, Reg::R1, value, pinned[level.index()]);
    }
    let [free, is_pinned] = std::array::from_fn(|_| a.label());
    a.jump(free);
    // The verifier rejects unreachable code.
    for level in (0..levels).filter(|&level| pins.iter().any(|pin| pin.2.index() == level)) {
        a.bind(pinned[level]);
        a.set(LEVEL, level as i32);
        a.jump(is_pinned);
    }
    if !pins.is_empty() {
        a.bind(is_pinned);
        spread(a, wiring);
        count(a, wiring, Counter::Fixed(COUNTED_PINNED));
        a.jump(out);
    }
    a.bind(free);
}

/// Counts the packet for its flow. The level depends on the bytes sent before, the queue on the number
/// of flows before this one. The same comparisons as [`FlowBacklog`](queueing::egress::FlowBacklog).
fn sink(a: &mut Assembler, policy: &Policy, wiring: &Wiring, counted: Label) {
    let line = &wiring.line;
    let idle_ns = line.idle_ns;
    let [fresh, keep, stale, noted] = std::array::from_fn(|_| a.label());
    a.map(Reg::R1, wiring.flows);
    address(a, Reg::R2, KEY);
    a.call(LOOKUP);
    a.jump_null(Reg::R0, fresh);
    copy_from(a, Reg::R0, OWN_QUEUE, QUEUE);
    a.load(Width::Double, Reg::R1, Reg::R0, SENT);
    level_of(a, policy, Reg::R1, LEVEL);
    // R5: the level's state. R4: its service since the flow's last packet.
    state_of(a, LEVEL, Reg::R5);
    served(a, Reg::R5, Reg::R4, Reg::R2);
    a.load(Width::Double, Reg::R1, Reg::R0, SERVED);
    a.alu(Op::Sub, Reg::R4, Reg::R1);
    let forward = a.label();
    a.set(Reg::R1, 0);
    // Another processor may have been ahead.
    a.jump_reg(Condition::SignedNotLess, Reg::R4, Reg::R1, forward);
    a.set(Reg::R4, 0);
    a.bind(forward);
    // R2: the last packet. Signed: a packet on another processor may have a slightly later time.
    a.load(Width::Double, Reg::R2, Reg::R0, LAST);
    a.load(Width::Double, Reg::R1, STACK, TIME);
    a.alu(Op::Sub, Reg::R1, Reg::R2);
    a.set_wide(Reg::R3, idle_ns);
    let silent = a.label();
    a.jump_reg(Condition::SignedNotLess, Reg::R1, Reg::R3, silent);
    a.jump(keep);
    a.bind(silent);
    a.load(Width::Double, Reg::R1, STACK, TIME);
    a.alu(Op::Sub, Reg::R1, Reg::R3);
    a.load(Width::Double, Reg::R3, Reg::R5, OWN + DRAINED);
    a.jump_reg(Condition::NotGreater, Reg::R3, Reg::R1, stale);
    for empty in EMPTY {
        let next = a.label();
        a.load(Width::Double, Reg::R3, Reg::R5, OWN + empty);
        a.jump_reg(Condition::NotGreater, Reg::R3, Reg::R2, next);
        a.jump_reg(Condition::NotGreater, Reg::R3, Reg::R1, stale);
        a.bind(next);
    }
    a.load(Width::Double, Reg::R1, Reg::R0, WAITING);
    a.set_wide(Reg::R3, line.quantum_ns);
    a.alu(Op::Add, Reg::R1, Reg::R3);
    a.alu_value(Op::Mul, Reg::R1, line.queues_max as i32);
    a.set_wide(Reg::R3, idle_ns);
    a.alu(Op::Add, Reg::R1, Reg::R3);
    a.jump_reg(Condition::NotGreater, Reg::R1, Reg::R4, stale);

    a.bind(keep);
    steady(a, policy, line);
    a.load(Width::Word, Reg::R1, CONTEXT, WIRE_LEN);
    a.alu(Op::Sub, Reg::R1, Reg::R4);
    a.add_at(Reg::R0, SENT, Reg::R1);
    a.jump(noted);
    a.bind(stale);
    a.set(LEVEL, 0);
    a.load(Width::Word, Reg::R1, CONTEXT, WIRE_LEN);
    a.store(Width::Double, Reg::R0, SENT, Reg::R1);
    a.bind(noted);
    note_service(a, policy, line, Reg::R0, 0);
    a.jump(counted);

    a.bind(fresh);
    // Flows that start together get separate queues, as long as there are enough; a hash would collide
    // much earlier.
    a.store_value(Width::Word, STACK, INDEX, COUNTED_FLOWS);
    a.map(Reg::R1, wiring.counts);
    address(a, Reg::R2, INDEX);
    a.call(LOOKUP);
    let known = a.label();
    a.jump_null(Reg::R0, known);
    a.load(Width::Double, Reg::R2, Reg::R0, 0);
    a.set(Reg::R1, 1);
    a.add_at(Reg::R0, 0, Reg::R1);
    a.alu_value(Op::Rest, Reg::R2, wiring.classes.buckets.into());
    a.store(Width::Double, STACK, QUEUE, Reg::R2);
    a.bind(known);
    a.load(Width::Word, Reg::R1, CONTEXT, WIRE_LEN);
    a.store(Width::Double, STACK, SEEN + SENT, Reg::R1);
    copy(a, Width::Double, QUEUE, SEEN + OWN_QUEUE);
    note_service(a, policy, line, STACK, SEEN);
    a.map(Reg::R1, wiring.flows);
    address(a, Reg::R2, KEY);
    address(a, Reg::R3, SEEN);
    a.set(Reg::R4, 0);
    a.call(UPDATE);
}

/// `R4` = the bytes of the flow with its entry at `R0` that no longer count, as
/// [`Line::steady`] says; its level stays. `R2` is its last packet. Clobbers `R1`, `R3` and `R5`.
fn steady(a: &mut Assembler, policy: &Policy, line: &Line) {
    let [ahead, short, all, known] = std::array::from_fn(|_| a.label());
    a.load(Width::Double, Reg::R4, STACK, TIME);
    // Another processor may have been ahead.
    a.jump_reg(Condition::Greater, Reg::R4, Reg::R2, ahead);
    a.mov(Reg::R4, Reg::R2);
    a.bind(ahead);
    a.alu(Op::Sub, Reg::R4, Reg::R2);
    a.set_wide(Reg::R3, u32::MAX.into());
    a.jump_reg(Condition::NotGreater, Reg::R4, Reg::R3, short);
    a.mov(Reg::R4, Reg::R3);
    a.bind(short);
    a.set_wide(Reg::R3, line.steady);
    a.alu(Op::Mul, Reg::R4, Reg::R3);
    a.alu_value(Op::ShiftRight, Reg::R4, 32);
    // R5: the bytes above the level's least.
    a.load(Width::Double, Reg::R5, Reg::R0, SENT);
    a.set(Reg::R3, 0);
    for (level, &threshold) in policy.thresholds.iter().enumerate() {
        a.jump_if(Condition::NotGreater, LEVEL, level as u32, known);
        a.set_wide(Reg::R3, threshold + 1);
    }
    a.bind(known);
    a.alu(Op::Sub, Reg::R5, Reg::R3);
    a.jump_reg(Condition::NotGreater, Reg::R4, Reg::R5, all);
    a.mov(Reg::R4, Reg::R5);
    a.bind(all);
}

/// Offset of a level's state from that of the level above it.
const OWN: i16 = LEVEL_LEN as i16;

/// `to` = the level of a flow that has sent `sent`. Clobbers `R3`.
fn level_of(a: &mut Assembler, policy: &Policy, sent: Reg, to: Reg) {
    let known = a.label();
    a.set(to, 0);
    for &threshold in &policy.thresholds {
        a.set_wide(Reg::R3, threshold);
        a.jump_reg(Condition::NotGreater, sent, Reg::R3, known);
        a.alu_value(Op::Add, to, 1);
    }
    a.bind(known);
}

/// `to` = the state of the level above `level`; the level's own follows at [`OWN`]. Clobbers `R1`.
fn state_of(a: &mut Assembler, level: Reg, to: Reg) {
    a.mov(Reg::R1, level);
    // The verifier does not know the bound.
    a.alu_value(Op::And, Reg::R1, LEVELS as i32 - 1);
    a.alu_value(Op::Mul, Reg::R1, LEVEL_LEN as i32);
    a.load(Width::Double, to, STACK, STATE);
    a.alu(Op::Add, to, Reg::R1);
}

/// `waiting` = waiting work of the level with `state`; `to` = the level's service: arrived work less
/// waiting work. Clobbers `R1`.
fn served(a: &mut Assembler, state: Reg, to: Reg, waiting: Reg) {
    let [own_empty, above_empty, positive] = std::array::from_fn(|_| a.label());
    a.load(Width::Double, Reg::R1, STACK, TIME);
    a.load(Width::Double, waiting, state, OWN + DRAINED);
    a.jump_reg(Condition::Greater, waiting, Reg::R1, own_empty);
    a.mov(waiting, Reg::R1);
    a.bind(own_empty);
    // The later of the time and of that at which the levels above are empty.
    a.load(Width::Double, to, state, DRAINED);
    a.jump_reg(Condition::NotGreater, to, Reg::R1, above_empty);
    a.mov(Reg::R1, to);
    a.bind(above_empty);
    a.jump_reg(Condition::Greater, waiting, Reg::R1, positive);
    a.mov(waiting, Reg::R1);
    a.bind(positive);
    a.alu(Op::Sub, waiting, Reg::R1);
    a.load(Width::Double, to, state, OWN + ARRIVED);
    a.alu(Op::Sub, to, waiting);
}

/// Stores the time and the state of the level that the flow with its entry at `base + at` has now.
/// Clobbers `R1` to `R5`.
fn note_service(a: &mut Assembler, policy: &Policy, line: &Line, base: Reg, at: i16) {
    let fits = a.label();
    a.load(Width::Double, Reg::R1, base, at + SENT);
    level_of(a, policy, Reg::R1, Reg::R2);
    state_of(a, Reg::R2, Reg::R5);
    served(a, Reg::R5, Reg::R4, Reg::R2);
    a.store(Width::Double, base, at + SERVED, Reg::R4);
    a.load(Width::Double, Reg::R1, STACK, COST);
    a.alu(Op::Add, Reg::R2, Reg::R1);
    a.set_wide(Reg::R1, line.queue_ns);
    a.jump_reg(Condition::NotGreater, Reg::R2, Reg::R1, fits);
    a.mov(Reg::R2, Reg::R1);
    a.bind(fits);
    a.store(Width::Double, base, at + WAITING, Reg::R2);
    a.load(Width::Double, Reg::R1, STACK, TIME);
    a.store(Width::Double, base, at + LAST, Reg::R1);
}

/// Adds the packet to the estimated backlog of its level and those below.
fn note_arrival(a: &mut Assembler, policy: &Policy, line: &Line) {
    let full = a.label();
    // R4: the time. R2: the packet's transmission time. R5: the first level's state.
    a.load(Width::Double, Reg::R4, STACK, TIME);
    a.load(Width::Double, Reg::R2, STACK, COST);
    state_of(a, LEVEL, Reg::R5);
    a.load(Width::Double, Reg::R3, Reg::R5, OWN + DRAINED);
    a.set_wide(Reg::R1, line.capacity_ns);
    a.alu(Op::Add, Reg::R1, Reg::R4);
    a.jump_reg(Condition::Greater, Reg::R3, Reg::R1, full);
    a.add_at(Reg::R5, OWN + ARRIVED, Reg::R2);
    a.load(Width::Double, Reg::R5, STACK, STATE);
    for level in 0..policy.levels() {
        let [busy, kept, next] = std::array::from_fn(|_| a.label());
        a.jump_if(Condition::Greater, LEVEL, level as u32, next);
        let own = (level as i16 + 1) * OWN;
        a.load(Width::Double, Reg::R3, Reg::R5, own + DRAINED);
        a.jump_reg(Condition::Greater, Reg::R3, Reg::R4, busy);
        a.load(Width::Double, Reg::R1, Reg::R5, own + EMPTY[0]);
        a.mov(Reg::R3, Reg::R4);
        a.alu(Op::Sub, Reg::R3, Reg::R1);
        a.set_wide(Reg::R0, line.idle_ns);
        a.jump_reg(Condition::Greater, Reg::R0, Reg::R3, kept);
        a.store(Width::Double, Reg::R5, own + EMPTY[1], Reg::R1);
        a.store(Width::Double, Reg::R5, own + EMPTY[0], Reg::R4);
        a.bind(kept);
        a.mov(Reg::R3, Reg::R4);
        a.alu(Op::Add, Reg::R3, Reg::R2);
        a.store(Width::Double, Reg::R5, own + DRAINED, Reg::R3);
        a.jump(next);
        a.bind(busy);
        a.add_at(Reg::R5, own + DRAINED, Reg::R2);
        a.bind(next);
    }
    a.bind(full);
}

/// Counts a packet that is larger than a quantum.
fn note_large(a: &mut Assembler, wiring: &Wiring) {
    let [large, fits] = std::array::from_fn(|_| a.label());
    a.load(Width::Word, Reg::R1, CONTEXT, WIRE_LEN);
    a.jump_if(Condition::Greater, Reg::R1, wiring.quantum, large);
    a.jump(fits);
    a.bind(large);
    count(a, wiring, Counter::Fixed(COUNTED_LARGE));
    a.bind(fits);
}

/// Queue of a pinned packet: the key's hash, as [`Key::bucket`](super::Key::bucket).
fn spread(a: &mut Assembler, wiring: &Wiring) {
    a.set_wide(Reg::R1, wiring.seed);
    a.set_wide(Reg::R2, FACTOR);
    for word in (KEY..0).step_by(8) {
        a.load(Width::Double, Reg::R3, STACK, word);
        a.alu(Op::Xor, Reg::R1, Reg::R3);
        a.alu(Op::Mul, Reg::R1, Reg::R2);
    }
    a.mov(Reg::R3, Reg::R1);
    a.alu_value(Op::ShiftRight, Reg::R3, 32);
    a.alu(Op::Xor, Reg::R1, Reg::R3);
    a.alu(Op::Mul, Reg::R1, Reg::R2);
    a.alu_value(Op::ShiftRight, Reg::R1, 32);
    a.alu_value(Op::Mul, Reg::R1, wiring.classes.buckets.into());
    a.alu_value(Op::ShiftRight, Reg::R1, 32);
    a.store(Width::Double, STACK, QUEUE, Reg::R1);
}

/// Writes the class of the level's queue.
fn name_class(a: &mut Assembler, wiring: &Wiring) {
    let Classes { major, base, step, .. } = wiring.classes;
    a.alu_value(Op::Mul, LEVEL, step.into());
    a.alu_value(Op::Add, LEVEL, base.into());
    a.load(Width::Double, Reg::R1, STACK, QUEUE);
    a.alu(Op::Add, LEVEL, Reg::R1);
    a.alu_value(Op::Or, LEVEL, i32::from(major) << 16);
    a.store(Width::Word, CONTEXT, PRIORITY, LEVEL);
}

/// Counter of a packet.
#[derive(Clone, Copy)]
enum Counter {
    Level,
    Fixed(i32),
}

/// Counts the packet, GSO segments as packets of their own, and its bytes on the wire.
fn count(a: &mut Assembler, wiring: &Wiring, counter: Counter) {
    let [segments, done] = std::array::from_fn(|_| a.label());
    match counter {
        Counter::Level => a.store(Width::Word, STACK, INDEX, LEVEL),
        Counter::Fixed(index) => a.store_value(Width::Word, STACK, INDEX, index),
    }
    a.map(Reg::R1, wiring.counts);
    address(a, Reg::R2, INDEX);
    a.call(LOOKUP);
    a.jump_null(Reg::R0, done);
    a.load(Width::Word, Reg::R1, CONTEXT, GSO_SEGS);
    a.jump_if(Condition::NotEqual, Reg::R1, 0, segments);
    a.set(Reg::R1, 1);
    a.bind(segments);
    a.add_at(Reg::R0, 0, Reg::R1);
    a.load(Width::Word, Reg::R1, CONTEXT, WIRE_LEN);
    a.add_at(Reg::R0, 8, Reg::R1);
    a.bind(done);
}

/// Source of a load.
#[derive(Clone, Copy)]
enum From {
    Value(i32),
    Reg(Reg),
}

/// Loads `len` bytes of the packet to `to` on the stack. If the packet is too short, `R0` is not 0 and
/// zeros are stored.
fn load_bytes(a: &mut Assembler, from: From, to: i16, len: i32) {
    a.mov(Reg::R1, CONTEXT);
    match from {
        From::Value(at) => a.set(Reg::R2, at),
        From::Reg(at) => a.mov(Reg::R2, at),
    }
    address(a, Reg::R3, to);
    a.set(Reg::R4, len);
    a.call(LOAD_BYTES);
}

/// Makes `to` point to `at` on the stack.
fn address(a: &mut Assembler, to: Reg, at: i16) {
    a.mov(to, STACK);
    a.alu_value(Op::Add, to, at.into());
}

/// Copies 8 bytes from `base + from` to the stack.
fn copy_from(a: &mut Assembler, base: Reg, from: i16, to: i16) {
    a.load(Width::Double, Reg::R2, base, from);
    a.store(Width::Double, STACK, to, Reg::R2);
}

fn copy(a: &mut Assembler, width: Width, from: i16, to: i16) {
    a.load(width, Reg::R2, STACK, from);
    a.store(width, STACK, to, Reg::R2);
}

/// 16 bits in network order, as a load returns them.
fn half(value: u16) -> u32 {
    u16::from_ne_bytes(value.to_be_bytes()).into()
}
