//! A tiny assembler for BPF: the dozen instructions that steering needs, with
//! labels, so that greenwave builds without a BPF toolchain.
//!
//! It checks what it can: that every label is bound once, that jumps go
//! forward (the kernel's verifier then sees no loop) and are not too far. Whether
//! the program is safe to run, the verifier says.
//! Source: RFC 9669 §3 and §4; helper numbers: linux/bpf.h.

/// A register. `R0` returns, `R1` to `R5` are a helper's arguments and lost in
/// the call, `R6` to `R9` are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reg {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R5 = 5,
    R6 = 6,
}

/// How much a load takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
}

/// When a jump is taken; words are compared without sign.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
    Less = 0xa0,
}

/// A place in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// `bpf_redirect_map(map, key, flags)`.
pub(super) const REDIRECT_MAP: i32 = 51;

/// A program in the making.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    /// Where each label is, once bound.
    labels: Vec<Option<usize>>,
    /// Jumps to be filled in: instruction and its label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction is at `label`.
    pub(super) fn bind(&mut self, label: Label) {
        assert!(self.labels[label.0].is_none(), "a label is in one place");
        self.labels[label.0] = Some(self.code.len());
    }

    /// `to = *(from + offset)`, zero-extended.
    pub(super) fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) {
        self.emit(0x61 | width as u8, to, from, offset, 0);
    }

    pub(super) fn mov(&mut self, to: Reg, from: Reg) {
        self.emit(0xbf, to, from, 0, 0);
    }

    pub(super) fn set(&mut self, to: Reg, value: i32) {
        self.emit(0xb7, to, Reg::R0, 0, value);
    }

    /// `to += from`.
    pub(super) fn add(&mut self, to: Reg, from: Reg) {
        self.emit(0x0f, to, from, 0, 0);
    }

    pub(super) fn add_value(&mut self, to: Reg, value: i32) {
        self.emit(0x07, to, Reg::R0, 0, value);
    }

    pub(super) fn and_value(&mut self, to: Reg, value: i32) {
        self.emit(0x57, to, Reg::R0, 0, value);
    }

    pub(super) fn shift_left(&mut self, to: Reg, bits: i32) {
        self.emit(0x67, to, Reg::R0, 0, bits);
    }

    /// The low 16 bits from network order, the others zero.
    pub(super) fn half_from_network(&mut self, to: Reg) {
        self.emit(0xdc, to, Reg::R0, 0, 16);
    }

    /// Goes to `label` when `reg` compares so with `value`, as 32-bit words.
    pub(super) fn jump_when(&mut self, when: When, reg: Reg, value: u32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(0x06 | when as u8, reg, Reg::R0, 0, value as i32);
    }

    /// Goes to `label` when `reg` lies after `other`, both pointers.
    pub(super) fn jump_after(&mut self, reg: Reg, other: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(0x2d, reg, other, 0, 0);
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(0x05, Reg::R0, Reg::R0, 0, 0);
    }

    /// `to` = the map that is open as descriptor `fd`.
    pub(super) fn map(&mut self, to: Reg, fd: i32) {
        // Source register 1: the value is a map's descriptor.
        self.emit(0x18, to, Reg::R1, 0, fd);
        self.code.push(0);
    }

    pub(super) fn call(&mut self, helper: i32) {
        self.emit(0x85, Reg::R0, Reg::R0, 0, helper);
    }

    pub(super) fn exit(&mut self) {
        self.emit(0x95, Reg::R0, Reg::R0, 0, 0);
    }

    /// The program, as the kernel takes it.
    ///
    /// # Panics
    /// When a label is bound nowhere, or a jump goes back or too far.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is bound");
            let distance = target.checked_sub(at + 1).expect("jumps go forward");
            let distance = i16::try_from(distance).expect("the program is short");
            self.code[at] |= u64::from(distance as u16) << 16;
        }
        self.code
    }

    /// Code, registers (target low), offset, value: in this order in memory.
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
        a.jump_when(When::NotEqual, Reg::R5, 0xdead_beef, end);
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
    #[should_panic(expected = "every label is bound")]
    fn a_jump_to_nowhere_is_our_bug() {
        let mut a = Assembler::default();
        let label = a.label();
        a.jump(label);
        a.finish();
    }
}
