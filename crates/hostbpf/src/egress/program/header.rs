//! IP headers in the classifier: parsing, and writing the DSCP.
//! Source: RFC 791 §3.1, RFC 8200 §3, RFC 2474 §3.

use super::{
    AT, CONTEXT, DSCP, From, HEADER, KEPT, KEY, LEVEL, STACK, VERSION, address, copy, half, load_bytes,
};
use crate::bpf::asm::{Assembler, Condition, Label, Op, REPLACE_CHECKSUM, Reg, STORE_BYTES, Width};
use crate::egress::flow_key::{FRAGMENT_BITS, PROTOCOL, SOURCE, TARGET};

/// Parses an IPv4 header into the key; jumps to `other` if there is none, to `pins` for a fragment.
pub(super) fn ipv4(a: &mut Assembler, other: Label, pins: Label) {
    load_bytes(a, From::Reg(AT), HEADER, 20);
    a.jump_if(Condition::NotEqual, Reg::R0, 0, other);
    a.load(Width::Byte, Reg::R1, STACK, HEADER);
    a.mov(Reg::R2, Reg::R1);
    a.alu_value(Op::ShiftRight, Reg::R2, 4);
    a.jump_if(Condition::NotEqual, Reg::R2, 4, other);
    a.alu_value(Op::And, Reg::R1, 15);
    a.jump_if(Condition::Less, Reg::R1, 5, other);
    a.alu_value(Op::ShiftLeft, Reg::R1, 2);
    a.mov(KEPT, AT);
    a.alu(Op::Add, KEPT, Reg::R1);
    copy(a, Width::Word, HEADER + 12, KEY + SOURCE as i16);
    copy(a, Width::Word, HEADER + 16, KEY + TARGET as i16);
    copy(a, Width::Byte, HEADER + 9, KEY + PROTOCOL as i16);
    a.load(Width::Byte, Reg::R1, STACK, HEADER + 1);
    a.alu_value(Op::ShiftRight, Reg::R1, 2);
    a.store(Width::Word, STACK, DSCP, Reg::R1);
    a.store_value(Width::Word, STACK, VERSION, 4);
    a.load(Width::Half, Reg::R1, STACK, HEADER + 6);
    a.alu_value(Op::And, Reg::R1, half(FRAGMENT_BITS) as i32);
    a.jump_if(Condition::NotEqual, Reg::R1, 0, pins);
}

/// Parses an IPv6 header into the key; jumps to `other` if there is none.
pub(super) fn ipv6(a: &mut Assembler, other: Label) {
    load_bytes(a, From::Reg(AT), HEADER, 40);
    a.jump_if(Condition::NotEqual, Reg::R0, 0, other);
    a.load(Width::Byte, Reg::R1, STACK, HEADER);
    a.mov(Reg::R2, Reg::R1);
    a.alu_value(Op::ShiftRight, Reg::R2, 4);
    a.jump_if(Condition::NotEqual, Reg::R2, 6, other);
    a.mov(KEPT, AT);
    a.alu_value(Op::Add, KEPT, 40);
    for word in [0, 8] {
        copy(a, Width::Double, HEADER + 8 + word, KEY + SOURCE as i16 + word);
        copy(a, Width::Double, HEADER + 24 + word, KEY + TARGET as i16 + word);
    }
    copy(a, Width::Byte, HEADER + 6, KEY + PROTOCOL as i16);
    // The traffic class spans the first two bytes.
    a.alu_value(Op::And, Reg::R1, 15);
    a.alu_value(Op::ShiftLeft, Reg::R1, 2);
    a.load(Width::Byte, Reg::R2, STACK, HEADER + 1);
    a.alu_value(Op::ShiftRight, Reg::R2, 6);
    a.alu(Op::Or, Reg::R1, Reg::R2);
    a.store(Width::Word, STACK, DSCP, Reg::R1);
    a.store_value(Width::Word, STACK, VERSION, 6);
}

/// Writes the level's DSCP into the IP header, if it differs.
pub(super) fn rewrite(a: &mut Assembler, dscp: &[u8], out: Label) {
    let [known, v6] = std::array::from_fn(|_| a.label());
    for (level, &value) in dscp.iter().enumerate() {
        a.set(KEPT, value.into());
        if level + 1 < dscp.len() {
            a.jump_if(Condition::Equal, LEVEL, level as u32, known);
        }
    }
    a.bind(known);
    a.load(Width::Word, Reg::R1, STACK, DSCP);
    a.jump_reg(Condition::Equal, Reg::R1, KEPT, out);
    a.load(Width::Word, Reg::R1, STACK, VERSION);
    a.jump_if(Condition::Equal, Reg::R1, 6, v6);
    a.jump_if(Condition::NotEqual, Reg::R1, 4, out);
    // The second byte: DSCP, and two ECN bits that stay.
    a.load(Width::Half, Reg::R3, STACK, HEADER);
    a.load(Width::Byte, Reg::R1, STACK, HEADER + 1);
    a.alu_value(Op::And, Reg::R1, 3);
    a.alu_value(Op::ShiftLeft, KEPT, 2);
    a.alu(Op::Or, Reg::R1, KEPT);
    a.store(Width::Byte, STACK, HEADER + 1, Reg::R1);
    a.load(Width::Half, Reg::R4, STACK, HEADER);
    a.mov(Reg::R1, CONTEXT);
    a.mov(Reg::R2, AT);
    a.alu_value(Op::Add, Reg::R2, 10);
    a.set(Reg::R5, 2);
    a.call(REPLACE_CHECKSUM);
    let store = a.label();
    a.jump(store);
    a.bind(v6);
    // Four bits of the DSCP are in the first byte, two in the second.
    a.load(Width::Byte, Reg::R1, STACK, HEADER);
    a.alu_value(Op::And, Reg::R1, 0xf0);
    a.mov(Reg::R2, KEPT);
    a.alu_value(Op::ShiftRight, Reg::R2, 2);
    a.alu(Op::Or, Reg::R1, Reg::R2);
    a.store(Width::Byte, STACK, HEADER, Reg::R1);
    a.load(Width::Byte, Reg::R1, STACK, HEADER + 1);
    a.alu_value(Op::And, Reg::R1, 0x3f);
    a.alu_value(Op::And, KEPT, 3);
    a.alu_value(Op::ShiftLeft, KEPT, 6);
    a.alu(Op::Or, Reg::R1, KEPT);
    a.store(Width::Byte, STACK, HEADER + 1, Reg::R1);
    a.bind(store);
    a.mov(Reg::R1, CONTEXT);
    a.mov(Reg::R2, AT);
    address(a, Reg::R3, HEADER);
    a.set(Reg::R4, 2);
    a.set(Reg::R5, 0);
    a.call(STORE_BYTES);
}
