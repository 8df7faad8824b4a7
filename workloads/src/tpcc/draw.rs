//! Random inputs of transactions by the specification.
//!
//! Source: TPC-C §2.1.6 (NURand), §2.4.1, §2.5.1, §2.6.1, §2.7.1, §2.8.1.

use queueing::Rng;

use super::fill::TableSizes;
use super::rows::{DISTRICTS, NAMES};
use super::{MIX, Transaction};

/// A warehouse and one of its districts.
pub(super) type Home = (usize, usize);

/// Selection of a transaction's customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CustomerKey {
    /// The customer of this number.
    Number(usize),
    /// The middle one of those with this last name, by first name.
    Name(usize),
}

/// Inputs of New-Order.
#[derive(Clone, Debug)]
pub(super) struct NewOrder {
    pub home: Home,
    pub customer: usize,
    /// Item, supplying warehouse, quantity. One item may not exist.
    pub lines: Vec<(usize, usize, u8)>,
}

/// Inputs of Payment.
#[derive(Clone, Debug)]
pub(super) struct Payment {
    pub home: Home,
    /// The customer's district, which may be another.
    pub from: Home,
    pub key: CustomerKey,
    pub amount: i64,
}

/// Source of random inputs.
#[derive(Clone, Debug)]
pub struct Draws {
    rng: Rng,
    /// NURand's constants for customers, items and last names.
    constants: [u64; 3],
}

impl Draws {
    /// The inputs of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let constants = [1024, 8192, 256].map(|below| rng.below(below));
        Self { rng, constants }
    }

    /// A transaction of the mix.
    pub fn kind(&mut self) -> Transaction {
        let mut point = self.rng.below(100);
        for (kind, share) in MIX {
            if point < share {
                return kind;
            }
            point -= share;
        }
        unreachable!("shares add up to 100")
    }

    pub(super) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Uniform in `low..=high`.
    pub(super) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.rng.below(high - low + 1)
    }

    /// NURand(`a`, 0, `below` − 1) with constant `of`.
    fn uneven(&mut self, a: u64, of: usize, below: usize) -> usize {
        let drawn = self.rng.below(a + 1) | self.rng.below(below as u64);
        ((drawn + self.constants[of]) % below as u64) as usize
    }

    fn home(&mut self, scale: &TableSizes) -> Home {
        (self.rng.below(scale.warehouses.into()) as usize, self.rng.below(DISTRICTS as u64) as usize)
    }

    /// A warehouse that is not `home`, if there is one.
    fn other(&mut self, home: usize, scale: &TableSizes) -> usize {
        match scale.warehouses {
            1 => home,
            count => (home + 1 + self.rng.below(u64::from(count) - 1) as usize) % count as usize,
        }
    }

    fn customer_key(&mut self, scale: &TableSizes) -> CustomerKey {
        match self.rng.below(100) < 60 {
            // Only names that the population has.
            true => CustomerKey::Name(self.uneven(255, 2, NAMES.min(scale.customers as usize))),
            false => CustomerKey::Number(self.uneven(1023, 0, scale.customers as usize)),
        }
    }

    pub(super) fn customer(&mut self, scale: &TableSizes) -> (Home, CustomerKey) {
        (self.home(scale), self.customer_key(scale))
    }

    pub(super) fn order(&mut self, scale: &TableSizes) -> NewOrder {
        let home = self.home(scale);
        let customer = self.uneven(1023, 0, scale.customers as usize);
        let count = self.within(5, 15);
        let fails = self.rng.below(100) == 0;
        let lines = (1..=count).map(|n| {
            let item = match fails && n == count {
                true => scale.items as usize,
                false => self.uneven(8191, 1, scale.items as usize),
            };
            let supplier = if self.rng.below(100) == 0 { self.other(home.0, scale) } else { home.0 };
            (item, supplier, self.within(1, 10) as u8)
        });
        NewOrder { home, customer, lines: lines.collect() }
    }

    pub(super) fn payment(&mut self, scale: &TableSizes) -> Payment {
        let home = self.home(scale);
        let from = match self.rng.below(100) < 85 {
            true => home,
            false => (self.other(home.0, scale), self.rng.below(DISTRICTS as u64) as usize),
        };
        Payment { home, from, key: self.customer_key(scale), amount: self.within(100, 500_000) as i64 }
    }

    pub(super) fn delivery(&mut self, scale: &TableSizes) -> (usize, u8) {
        (self.rng.below(scale.warehouses.into()) as usize, self.within(1, 10) as u8)
    }

    pub(super) fn stock_level(&mut self, scale: &TableSizes) -> (Home, i64) {
        (self.home(scale), self.within(10, 20) as i64)
    }
}
