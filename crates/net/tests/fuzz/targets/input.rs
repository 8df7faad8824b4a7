//! Bytes as a list of decisions.

/// What is left of a fuzzer's bytes.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// The next byte; `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number below `n`, at most 256.
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

    /// The next `n` bytes, or what there is.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }
}

/// The byte of every stream at `place`.
pub fn pattern(place: u32) -> u8 {
    (place % 251) as u8
}
