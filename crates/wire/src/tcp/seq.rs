//! Sequence numbers modulo 2³², compared by their signed distance.
//!
//! Source: RFC 9293 §3.4.

use std::ops::{Add, AddAssign, Sub};

/// TCP sequence number. No `Ord`, since the comparison is not transitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// True if this number precedes `other`.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// True if this number follows `other`.
    #[must_use]
    pub const fn after(self, other: Self) -> bool {
        self.distance(other) > 0
    }

    /// True if this number equals or precedes `other`.
    #[must_use]
    pub const fn at_or_before(self, other: Self) -> bool {
        self.distance(other) <= 0
    }

    /// True if this number equals or follows `other`.
    #[must_use]
    pub const fn at_or_after(self, other: Self) -> bool {
        self.distance(other) >= 0
    }

    /// Signed distance from `other`; negative if this number precedes it.
    #[must_use]
    pub const fn distance(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// The later of two numbers.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of two numbers.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, n: u32) {
        *self = *self + n;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    fn sub(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}

/// Bytes from `earlier` to this number, unsigned; [`Seq::distance`] is signed.
impl Sub for Seq {
    type Output = u32;
    fn sub(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}
