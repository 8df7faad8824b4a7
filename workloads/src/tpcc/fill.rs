//! The initial population.
//!
//! Source: TPC-C §4.3.3; smaller tables keep its proportions.

use std::collections::VecDeque;

use super::draw::Draws;
use super::rows::{Customer, DATA_MAX, DISTRICTS, District, History, Line, NAMES, Order, Stock, Warehouse};
use super::{Database, Ended, Transaction};

/// Sizes of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSizes {
    /// Warehouses, 1 or more.
    pub warehouses: u32,
    /// Items, 16 or more.
    pub items: u32,
    /// Customers of each district, 10 or more; as many initial orders.
    pub customers: u32,
    /// Orders, and payments, that a district holds; further ones are rolled back. More than
    /// `customers`.
    pub orders_max: u32,
}

impl Default for TableSizes {
    /// The specification's sizes, with room for 600 MB of orders.
    fn default() -> Self {
        Self { warehouses: 1, items: 100_000, customers: 3000, orders_max: 1 << 17 }
    }
}

/// Amount of an initial payment.
const PAID: i64 = 1000;

impl Database {
    /// A store before its first transaction.
    ///
    /// # Panics
    /// `scale` outside its ranges.
    #[must_use]
    pub fn new(scale: TableSizes, seed: u64) -> Self {
        assert!(scale.warehouses >= 1 && scale.items >= 16, "{scale:?} has a warehouse and 16 items");
        assert!((10..scale.orders_max).contains(&scale.customers), "{scale:?} has 10 customers and room");
        let mut draws = Draws::new(seed);
        let prices = (0..scale.items).map(|_| draws.within(100, 10_000) as i64).collect();
        let warehouses = (0..scale.warehouses).map(|number| warehouse(number, &scale, &mut draws)).collect();
        Self { scale, prices, warehouses, draws, now: 0, committed: 0, rolled_back: 0 }
    }

    /// A transaction of the mix.
    pub fn any(&mut self) -> (Transaction, Ended) {
        let kind = self.draws.kind();
        (kind, self.run(kind))
    }
}

fn warehouse(number: u32, scale: &TableSizes, draws: &mut Draws) -> Warehouse {
    let stock = (0..scale.items)
        .map(|_| Stock { quantity: draws.within(10, 100) as i64, ytd: 0, orders: 0, remote: 0 })
        .collect();
    let districts: Vec<_> = (0..DISTRICTS as u8).map(|at| district((number, at), scale, draws)).collect();
    let ytd = districts.iter().map(|district| district.ytd).sum();
    Warehouse { tax: draws.within(0, 2000) as i64, ytd, districts, stock }
}

fn district(home: (u32, u8), scale: &TableSizes, draws: &mut Draws) -> District {
    let count = scale.customers as usize;
    let mut by_name = vec![Vec::new(); NAMES];
    let mut customers: Vec<Customer> = (0..count)
        .map(|number| {
            // The first thousand customers have distinct last names.
            let name = if number < NAMES { number } else { draws.within(0, NAMES as u64 - 1) as usize };
            by_name[name].push(number as u32);
            customer(draws)
        })
        .collect();
    for names in &mut by_name {
        names.sort_by_key(|&number| customers[number as usize].first);
    }
    // Each customer has one order, in random order.
    let mut whose: Vec<u32> = (0..scale.customers).collect();
    for at in (1..count).rev() {
        whose.swap(at, draws.within(0, at as u64) as usize);
    }
    // The last 900 of 3000 are undelivered.
    let delivered = count * 7 / 10;
    let orders = whose
        .iter()
        .enumerate()
        .map(|(number, &customer)| {
            customers[customer as usize].last_order = Some(number as u32);
            order(home.0, customer, number < delivered, scale, draws)
        })
        .collect();
    let history = (0..scale.customers)
        .map(|number| History { customer: (home.0, home.1, number), amount: PAID })
        .collect();
    District {
        tax: draws.within(0, 2000) as i64,
        ytd: PAID * count as i64,
        next_order: scale.customers,
        customers,
        by_name,
        orders,
        waiting: (delivered as u32..scale.customers).collect::<VecDeque<_>>(),
        history,
    }
}

fn customer(draws: &mut Draws) -> Customer {
    let length = draws.within(300, DATA_MAX as u64);
    let rng = draws.rng();
    Customer {
        first: rng.next_u64(),
        bad_credit: rng.below(10) == 0,
        discount: rng.below(5001) as i64,
        balance: -PAID,
        paid: PAID,
        payments: 1,
        deliveries: 0,
        data: (0..length).map(|_| char::from(b'a' + rng.below(26) as u8)).collect(),
        last_order: None,
    }
}

fn order(home: u32, customer: u32, is_delivered: bool, scale: &TableSizes, draws: &mut Draws) -> Order {
    let count = draws.within(5, 15);
    let line = |_| Line {
        item: draws.within(0, u64::from(scale.items) - 1) as u32,
        supplier: home,
        quantity: 5,
        amount: if is_delivered { 0 } else { draws.within(1, 999_999) as i64 },
        delivered: is_delivered.then_some(0),
    };
    let lines: Vec<_> = (0..count).map(line).collect();
    let carrier = is_delivered.then(|| draws.within(1, 10) as u8);
    Order { customer, entered: 0, carrier, lines_count: count as u8, lines }
}
