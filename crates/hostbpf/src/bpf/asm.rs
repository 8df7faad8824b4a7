//! Assembler for BPF: the instructions that the classifiers need, with labels, so that greenwave builds
//! without a BPF toolchain.
//!
//! Checks that every label is bound once and that jumps go forward (the kernel's verifier then sees no
//! loop) and are within range. The safety of the program is the verifier's concern.
//!
//! Source: RFC 9669 §3 and §4; helper numbers: linux/bpf.h.

/// A register. `R0` is the return value, `R1` to `R5` are a helper's arguments and clobbered by the
/// call, `R6` to `R9` are callee-saved, `R10` is the frame pointer.
#[allow(missing_docs, reason = "the names are those of the instruction set")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reg {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R5 = 5,
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
}

/// Size of a load or store: 1, 2, 4 or 8 bytes.
#[allow(missing_docs, reason = "the names are those of the instruction set")]
#[derive(Clone, Copy, Debug)]
pub enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

/// Operation on two 64-bit values.
#[allow(missing_docs, reason = "the names are those of the instruction set")]
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Rest = 0x90,
    Xor = 0xa0,
    Set = 0xb0,
}

/// Condition of a jump; comparisons are unsigned unless named otherwise.
#[allow(missing_docs, reason = "the names are those of the instruction set")]
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
    SignedNotLess = 0x70,
    Less = 0xa0,
    NotGreater = 0xb0,
}

/// Position in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// `bpf_map_lookup_elem(map, key)`: a pointer to the value, or 0.
pub const LOOKUP: i32 = 1;
/// `bpf_map_update_elem(map, key, value, flags)`.
pub const UPDATE: i32 = 2;
/// `bpf_ktime_get_ns()`.
pub const NOW: i32 = 5;
/// `bpf_skb_store_bytes(skb, offset, from, len, flags)`.
pub const STORE_BYTES: i32 = 9;
/// `bpf_l3_csum_replace(skb, offset, from, to, size)`.
pub const REPLACE_CHECKSUM: i32 = 10;
/// `bpf_skb_load_bytes(skb, offset, to, len)`: 0, or negative if the packet is shorter.
pub const LOAD_BYTES: i32 = 26;
/// `bpf_redirect_map(map, key, flags)`.
pub const REDIRECT_MAP: i32 = 51;

/// A program under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<u64>,
    /// Position of each label, once bound.
    labels: Vec<Option<usize>>,
    /// Jumps to resolve: instruction and its label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label without a position.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds `label` to the next instruction.
    pub fn bind(&mut self, label: Label) {
        assert!(self.labels[label.0].is_none(), "a label is bound once");
        self.labels[label.0] = Some(self.code.len());
    }

    /// `to = *(from + offset)`, zero-extended.
    pub fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) {
        self.emit(0x61 | width as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = from`.
    pub fn store(&mut self, width: Width, to: Reg, offset: i16, from: Reg) {
        self.emit(0x63 | width as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = value`, sign-extended.
    pub fn store_value(&mut self, width: Width, to: Reg, offset: i16, value: i32) {
        self.emit(0x62 | width as u8, to, Reg::R0, offset, value);
    }

    /// `*(to + offset) += from`, 8 bytes, atomically.
    pub fn add_at(&mut self, to: Reg, offset: i16, from: Reg) {
        self.emit(0xdb, to, from, offset, 0);
    }

    /// `to op= from`.
    pub fn alu(&mut self, op: Op, to: Reg, from: Reg) {
        self.emit(0x0f | op as u8, to, from, 0, 0);
    }

    /// `to op= value`, sign-extended.
    pub fn alu_value(&mut self, op: Op, to: Reg, value: i32) {
        self.emit(0x07 | op as u8, to, Reg::R0, 0, value);
    }

    /// `to = from`.
    pub fn mov(&mut self, to: Reg, from: Reg) {
        self.alu(Op::Set, to, from);
    }

    /// `to = value`, sign-extended.
    pub fn set(&mut self, to: Reg, value: i32) {
        self.alu_value(Op::Set, to, value);
    }

    /// `to = value`, all 64 bits.
    pub fn set_wide(&mut self, to: Reg, value: u64) {
        self.emit(0x18, to, Reg::R0, 0, value as i32);
        self.emit(0, Reg::R0, Reg::R0, 0, (value >> 32) as i32);
    }

    /// The low 16 bits, converted from network order; the others zero.
    pub fn half_from_network(&mut self, to: Reg) {
        self.emit(0xdc, to, Reg::R0, 0, 16);
    }

    /// Jumps to `label` if the comparison `when` of `reg` with `value`, as 32-bit words, is true.
    pub fn jump_if(&mut self, when: Condition, reg: Reg, value: u32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(0x06 | when as u8, reg, Reg::R0, 0, value as i32);
    }

    /// Jumps to `label` if the comparison `when` of `reg` with `other` is true: 64-bit numbers or
    /// pointers.
    pub fn jump_reg(&mut self, when: Condition, reg: Reg, other: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(0x0d | when as u8, reg, other, 0, 0);
    }

    /// Jumps to `label` if the pointer in `reg` is null.
    pub fn jump_null(&mut self, reg: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(0x15, reg, Reg::R0, 0, 0);
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(0x05, Reg::R0, Reg::R0, 0, 0);
    }

    /// `to` = the map with descriptor `fd`.
    pub fn map(&mut self, to: Reg, fd: i32) {
        // Source register 1: the value is a map's descriptor.
        self.emit(0x18, to, Reg::R1, 0, fd);
        self.code.push(0);
    }

    /// Calls the kernel's function `helper`.
    pub fn call(&mut self, helper: i32) {
        self.emit(0x85, Reg::R0, Reg::R0, 0, helper);
    }

    /// Ends the program; `R0` is its result.
    pub fn exit(&mut self) {
        self.emit(0x95, Reg::R0, Reg::R0, 0, 0);
    }

    /// The program in the kernel's format.
    ///
    /// # Panics
    /// A label is unbound, or a jump goes backward or too far.
    pub fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is bound");
            let distance = target.checked_sub(at + 1).expect("jumps go forward");
            let distance = i16::try_from(distance).expect("the program is short");
            self.code[at] |= u64::from(distance as u16) << 16;
        }
        self.code
    }

    /// Opcode, registers (target in the low bits), offset, value: the order in memory.
    fn emit(&mut self, code: u8, to: Reg, from: Reg, offset: i16, value: i32) {
        let [o0, o1] = offset.to_ne_bytes();
        let [v0, v1, v2, v3] = value.to_ne_bytes();
        let regs = if cfg!(target_endian = "little") {
            (from as u8) << 4 | to as u8
        } else {
            (to as u8) << 4 | from as u8
        };
        self.code.push(u64::from_ne_bytes([code, regs, o0, o1, v0, v1, v2, v3]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_laid_out_as_rfc_9669_says() {
        let mut a = Assembler::default();
        let end = a.label();
        a.load(Width::Word, Reg::R5, Reg::R2, 30);
        a.jump_if(Condition::NotEqual, Reg::R5, 0xdead_beef, end);
        a.map(Reg::R1, 7);
        a.bind(end);
        a.exit();
        let bytes: Vec<[u8; 8]> = a.finish().into_iter().map(u64::to_ne_bytes).collect();
        if cfg!(target_endian = "little") {
            assert_eq!(
                bytes,
                [
                    [0x61, 0x25, 30, 0, 0, 0, 0, 0],
                    [0x56, 0x05, 2, 0, 0xef, 0xbe, 0xad, 0xde],
                    [0x18, 0x11, 0, 0, 7, 0, 0, 0],
                    [0; 8],
                    [0x95, 0, 0, 0, 0, 0, 0, 0],
                ]
            );
        }
    }

    #[test]
    fn wide_values_take_two_instructions_and_stores_name_their_target_first() {
        let mut a = Assembler::default();
        a.set_wide(Reg::R3, 0x0123_4567_89ab_cdef);
        a.store(Width::Double, Reg::R10, -8, Reg::R3);
        a.add_at(Reg::R0, 8, Reg::R1);
        a.alu_value(Op::ShiftRight, Reg::R3, 32);
        let bytes: Vec<[u8; 8]> = a.finish().into_iter().map(u64::to_ne_bytes).collect();
        if cfg!(target_endian = "little") {
            assert_eq!(
                bytes,
                [
                    [0x18, 0x03, 0, 0, 0xef, 0xcd, 0xab, 0x89],
                    [0, 0, 0, 0, 0x67, 0x45, 0x23, 0x01],
                    [0x7b, 0x3a, 0xf8, 0xff, 0, 0, 0, 0],
                    [0xdb, 0x10, 8, 0, 0, 0, 0, 0],
                    [0x77, 0x03, 0, 0, 32, 0, 0, 0],
                ]
            );
        }
    }

    #[test]
    #[should_panic(expected = "every label is bound")]
    fn a_jump_to_nowhere_is_our_bug() {
        let mut a = Assembler::default();
        let label = a.label();
        a.jump(label);
        a.finish();
    }
}
