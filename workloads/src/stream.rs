//! Memory traffic only: antagonists of a cache and of DRAM.
//!
//! The four kernels of STREAM over three arrays: copy, scale, add, triad. Small arrays stay in the
//! second-level cache and keep it busy, large ones stream through DRAM. The factor is √2 − 1, so
//! that a round preserves the magnitude of the first array; the expected value of every element
//! comes from the same operations on one number. Source: McCalpin, STREAM (1995); Caladan (OSDI
//! '20) §7.

use std::process::ExitCode;

use clap::Parser;

use crate::progress::{Check, ProgressArgs, ProgressReporter};

/// Three arrays, and the expected values of their elements.
#[derive(Debug)]
pub struct Arrays {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    expected: [f64; 3],
}

/// A round then restores the first array: factor² + 2·factor = 1.
const FACTOR: f64 = std::f64::consts::SQRT_2 - 1.0;

/// Bytes read and written per element and round: 2 + 2 + 3 + 3 of 8.
const TRAFFIC: usize = 80;

impl Arrays {
    /// Arrays of `bytes` in total, one element each at least.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let len = (bytes / 24).max(1);
        let of = |value| vec![value; len];
        Self { a: of(1.0), b: of(2.0), c: of(0.0), expected: [1.0, 2.0, 0.0] }
    }

    /// Copy, scale, add, triad; returns the bytes read and written.
    pub fn round(&mut self) -> u64 {
        let Self { a, b, c, expected } = self;
        c.copy_from_slice(a);
        b.iter_mut().zip(&*c).for_each(|(b, c)| *b = FACTOR * c);
        c.iter_mut().zip(&*a).zip(&*b).for_each(|((c, a), b)| *c = a + b);
        a.iter_mut().zip(&*b).zip(&*c).for_each(|((a, b), c)| *a = b + FACTOR * c);
        let [x, y, z] = expected;
        *z = *x;
        *y = FACTOR * *z;
        *z = *x + *y;
        *x = *y + FACTOR * *z;
        (a.len() * TRAFFIC) as u64
    }

    /// Checks every element to the last bit.
    #[must_use]
    pub fn check(&self) -> Check {
        let arrays = [&self.a, &self.b, &self.c];
        let wrong: usize = arrays
            .iter()
            .zip(self.expected)
            .map(|(array, expected)| array.iter().filter(|&&value| value != expected).count())
            .sum();
        let says = format!("{wrong} of {} elements are wrong", 3 * self.a.len());
        Check { holds: wrong == 0, says }
    }
}

/// Arguments of both programs.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    pace: ProgressArgs,
    /// All three arrays together
    #[arg(long, value_name = "KIB")]
    kib: Option<usize>,
}

/// The program `workload`, over arrays of `kib` KiB by default.
#[must_use]
pub fn main(workload: &'static str, kib: usize) -> ExitCode {
    host::signals::restore_sigpipe();
    let args = Args::parse();
    let mut arrays = Arrays::new(args.kib.unwrap_or(kib) << 10);
    let mut progress = ProgressReporter::new(workload, "bytes", args.pace, host::signals::flag());
    while progress.add(arrays.round()) {}
    progress.end(&arrays.check())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_elements_equal_the_computed_value() {
        let mut arrays = Arrays::new(24 * 1001);
        for _ in 0..1000 {
            assert_eq!(arrays.round(), 80 * 1001);
        }
        let check = arrays.check();
        assert!(check.holds, "{}", check.says);
        assert!((arrays.a[7] - 1.0).abs() < 1e-12, "it neither grows nor vanishes: {}", arrays.a[7]);
    }

    #[test]
    fn one_wrong_element_is_detected() {
        let mut arrays = Arrays::new(24 * 1001);
        arrays.round();
        arrays.b[1000] = 0.5;
        assert_eq!(arrays.check(), Check { holds: false, says: "1 of 3003 elements are wrong".to_owned() });
    }
}
