//! TPC-C in memory: the store, its five transactions and its consistency.
//!
//! Transactions run one after the other, each to its end, so every schedule is serial. A failing
//! transaction reads all that it may fail on before it writes, so a rollback has nothing to undo.
//! Many cores would need one [`Database`] each, by warehouse (as in H-Store, VLDB '07); a shared
//! machine cannot spare them. Left out: columns that no transaction here reads (addresses, phone
//! numbers, the texts of stock), and terminals with keying and think times: clients set the pace.
//! It is therefore TPC-C's mix and not the benchmark, and its figures are no tpmC. Source: TPC-C
//! 5.11; the workload: silo's in Caladan (OSDI '20) §7.

mod consistency;
mod draw;
mod fill;
mod rows;
mod transactions;

pub use consistency::Broken;
pub use draw::Draws;
pub use fill::TableSizes;

use std::sync::{Mutex, MutexGuard, PoisonError};

use load::protocol::synthetic::RequestHeader;

use self::rows::Warehouse;
use crate::progress::Check;
use crate::serve::{Refused, Service};

/// A transaction of the mix, in the order of the protocol's `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// §2.4: a customer orders 5 to 15 items. One order in 100 names a missing item.
    NewOrder,
    /// §2.5: a customer pays.
    Payment,
    /// §2.6: the state of a customer's last order.
    OrderStatus,
    /// §2.7: the oldest order of each district is delivered.
    Delivery,
    /// §2.8: items of recent orders with low stock.
    StockLevel,
}

/// The mix: each transaction's share of 100, §5.2.3.
pub const MIX: [(Transaction, u64); 5] = [
    (Transaction::NewOrder, 45),
    (Transaction::Payment, 43),
    (Transaction::OrderStatus, 4),
    (Transaction::Delivery, 4),
    (Transaction::StockLevel, 4),
];

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Completed; for queries with the result.
    Committed(u64),
    /// Without effect: it named a missing item, or a table is full.
    RolledBack,
}

/// Warehouses and their tables.
pub struct Database {
    scale: TableSizes,
    /// Prices of items in cents; the first item is number 0 here.
    prices: Vec<i64>,
    warehouses: Vec<Warehouse>,
    draws: Draws,
    /// The time of day: the number of transactions so far.
    now: u64,
    committed: u64,
    rolled_back: u64,
}

impl Database {
    /// Runs a new transaction of this kind, with its own inputs.
    pub fn run(&mut self, kind: Transaction) -> Ended {
        self.now += 1;
        let ended = match kind {
            Transaction::NewOrder => {
                let order = self.draws.order(&self.scale);
                self.new_order(&order)
            }
            Transaction::Payment => {
                let payment = self.draws.payment(&self.scale);
                self.payment(&payment)
            }
            Transaction::OrderStatus => {
                let (home, key) = self.draws.customer(&self.scale);
                self.order_status(home, key)
            }
            Transaction::Delivery => {
                let (warehouse, carrier) = self.draws.delivery(&self.scale);
                self.delivery(warehouse, carrier)
            }
            Transaction::StockLevel => {
                let (home, threshold) = self.draws.stock_level(&self.scale);
                self.stock_level(home, threshold)
            }
        };
        match ended {
            Ended::Committed(_) => self.committed += 1,
            Ended::RolledBack => self.rolled_back += 1,
        }
        ended
    }
}

impl Database {
    /// Check of the consistency, and the transaction counts.
    fn check(&self) -> Check {
        let done = format!("{} committed, {} rolled back", self.committed, self.rolled_back);
        match self.consistent() {
            Ok(()) => Check { holds: true, says: done },
            Err(broken) => Check { holds: false, says: format!("{done}; {broken}") },
        }
    }
}

impl Service for Mutex<Database> {
    async fn serve(&self, request: &RequestHeader, _: &[u8], answer: &mut Vec<u8>) -> Result<(), Refused> {
        let Some((kind, _)) = MIX.get(usize::from(request.kind)) else {
            return Err(Refused(format!("transaction {} is outside 0..=4", request.kind)));
        };
        let (word, found) = match lock(self).run(*kind) {
            Ended::Committed(found) => (1_u64, found),
            Ended::RolledBack => (0, 0),
        };
        answer.extend_from_slice(&word.to_be_bytes());
        answer.extend_from_slice(&found.to_be_bytes());
        Ok(())
    }

    fn check(&self) -> Check {
        lock(self).check()
    }
}

fn lock(store: &Mutex<Database>) -> MutexGuard<'_, Database> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
