//! Set of cores.

use queueing::CoreId;

/// Set of cores, numbered 0 to 1,023 as in Linux's `cpu_set_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreSet([u64; CORES_MAX / 64]);

/// Number of cores that a set can hold.
const CORES_MAX: usize = 1024;

impl CoreSet {
    /// The cores 0 to `cores - 1`.
    #[must_use]
    pub fn all(cores: usize) -> Self {
        (0..cores).collect()
    }

    /// True if `core` is in the set.
    #[must_use]
    pub fn contains(&self, core: usize) -> bool {
        self.0[core / 64] >> (core % 64) & 1 == 1
    }

    /// True if no core is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Number of cores in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Cores of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CoreId> + '_ {
        (0..CORES_MAX).filter(|&core| self.contains(core)).map(|core| CoreId(core as u16))
    }
}

impl FromIterator<usize> for CoreSet {
    /// # Panics
    /// If a core is not below 1,024.
    fn from_iter<I: IntoIterator<Item = usize>>(cores: I) -> Self {
        let mut set = Self::default();
        cores.into_iter().for_each(|core| set.0[core / 64] |= 1 << (core % 64));
        set
    }
}
