//! Fuzzer input as a sequence of decisions.

/// Remaining bytes of the input.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// Next byte; `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Number below `n`, which is at most 256.
    pub fn below(&mut self, n: usize) -> Option<usize> {
        Some(usize::from(self.byte()?) % n)
    }

    /// One of `choices`.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        Some(choices[self.below(choices.len())?])
    }

    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    /// Next `n` bytes, or as many as remain.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let (accepted, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        accepted.to_vec()
    }
}

/// Byte of every stream at offset `offset`.
pub fn pattern(offset: u32) -> u8 {
    (offset % 251) as u8
}
