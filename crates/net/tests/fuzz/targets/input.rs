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

/// SplitMix64, for decisions that the bytes no longer make.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
