//! Sequence numbers: a circle of 2³² on which half lies before and half after.
//! Source: RFC 9293 §3.4.

use std::ops::{Add, AddAssign, Sub};

/// A sequence number. It has no `Ord`: on a circle, "less" is no order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// Whether this number comes before `other`.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// Whether this number comes after `other`.
    #[must_use]
    pub const fn after(self, other: Self) -> bool {
        self.distance(other) > 0
    }

    /// Whether this number is `other` or comes before it.
    #[must_use]
    pub const fn at_or_before(self, other: Self) -> bool {
        self.distance(other) <= 0
    }

    /// Whether this number is `other` or comes after it.
    #[must_use]
    pub const fn at_or_after(self, other: Self) -> bool {
        self.distance(other) >= 0
    }

    /// How far this number lies after `other`; negative when before it.
    #[must_use]
    pub const fn distance(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// The later of two.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of two.
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

/// Bytes from `earlier` up to this number; [`Seq::distance`] has the sign.
impl Sub for Seq {
    type Output = u32;
    fn sub(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}
