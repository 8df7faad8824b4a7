//! The five transactions.
//!
//! Each reads first and writes then, and its writes cannot fail. Source: TPC-C §2.4 to §2.8.

use super::draw::{CustomerKey, Home, NewOrder, Payment};
use super::rows::{DATA_MAX, District, History, Line, Order};
use super::{Database, Ended};

/// Number of orders examined by Stock-Level, §2.8.2.2.
const RECENT: usize = 20;

impl Database {
    fn district(&mut self, home: Home) -> &mut District {
        &mut self.warehouses[home.0].districts[home.1]
    }

    /// True if a district's tables have room for one more row.
    fn has_room(&self, rows: usize) -> bool {
        rows < self.scale.orders_max as usize
    }

    pub(super) fn new_order(&mut self, order: &NewOrder) -> Ended {
        let NewOrder { home, customer, ref lines } = *order;
        let prices: Option<Vec<i64>> =
            lines.iter().map(|(item, ..)| self.prices.get(*item).copied()).collect();
        let rows = self.district(home).orders.len();
        let Some(prices) = prices.filter(|_| self.has_room(rows)) else { return Ended::RolledBack };
        let entered = self.now;
        let mut total = 0;
        let mut written = Vec::with_capacity(lines.len());
        for (&(item, supplier, quantity), price) in lines.iter().zip(prices) {
            let stock = &mut self.warehouses[supplier].stock[item];
            let wanted = i64::from(quantity);
            stock.quantity -= wanted;
            if stock.quantity < 10 {
                stock.quantity += 91;
            }
            stock.ytd += u64::from(quantity);
            stock.orders += 1;
            stock.remote += u32::from(supplier != home.0);
            let amount = wanted * price;
            total += amount;
            let (item, supplier) = (item as u32, supplier as u32);
            written.push(Line { item, supplier, quantity, amount, delivered: None });
        }
        let warehouse = &mut self.warehouses[home.0];
        let district = &mut warehouse.districts[home.1];
        let number = district.next_order;
        district.next_order += 1;
        let buyer = &mut district.customers[customer];
        buyer.last_order = Some(number);
        let taxed = total * (10_000 + warehouse.tax + district.tax) / 10_000;
        let owed = taxed * (10_000 - buyer.discount) / 10_000;
        let (customer, lines_count) = (customer as u32, written.len() as u8);
        district.orders.push(Order { customer, entered, carrier: None, lines_count, lines: written });
        district.waiting.push_back(number);
        Ended::Committed(owed as u64)
    }

    pub(super) fn payment(&mut self, payment: &Payment) -> Ended {
        let Payment { home, from, key, amount } = *payment;
        let rows = self.district(home).history.len();
        let Some(number) = self.district(from).find(key).filter(|_| self.has_room(rows)) else {
            return Ended::RolledBack;
        };
        self.warehouses[home.0].ytd += amount;
        let there = self.district(from);
        let customer = &mut there.customers[number];
        customer.balance -= amount;
        customer.paid += amount;
        customer.payments += 1;
        if customer.bad_credit {
            let note = format!("{number} {} {} {} {} {amount} ", from.1, from.0, home.1, home.0);
            customer.data.insert_str(0, &note);
            customer.data.truncate(DATA_MAX);
        }
        let balance = customer.balance;
        let district = self.district(home);
        district.ytd += amount;
        district.history.push(History { customer: (from.0 as u32, from.1 as u8, number as u32), amount });
        Ended::Committed(balance.unsigned_abs())
    }

    pub(super) fn order_status(&mut self, home: Home, key: CustomerKey) -> Ended {
        let district = self.district(home);
        let order = district.find(key).and_then(|number| district.customers[number].last_order);
        let order = order.map(|number| &district.orders[number as usize]);
        Ended::Committed(order.map_or(0, |order| order.lines.iter().map(|line| line.amount as u64).sum()))
    }

    pub(super) fn delivery(&mut self, warehouse: usize, carrier: u8) -> Ended {
        let now = self.now;
        let mut delivered = 0;
        for district in &mut self.warehouses[warehouse].districts {
            // A district without any is skipped, §2.7.4.2.
            let Some(number) = district.waiting.pop_front() else { continue };
            let order = &mut district.orders[number as usize];
            order.carrier = Some(carrier);
            order.lines.iter_mut().for_each(|line| line.delivered = Some(now));
            let customer = &mut district.customers[order.customer as usize];
            customer.balance += order.lines.iter().map(|line| line.amount).sum::<i64>();
            customer.deliveries += 1;
            delivered += 1;
        }
        Ended::Committed(delivered)
    }

    pub(super) fn stock_level(&mut self, home: Home, threshold: i64) -> Ended {
        let warehouse = &self.warehouses[home.0];
        let recent = warehouse.districts[home.1].orders.iter().rev().take(RECENT);
        let mut items: Vec<u32> = recent.flat_map(|order| order.lines.iter().map(|line| line.item)).collect();
        items.sort_unstable();
        items.dedup();
        let low = items.iter().filter(|&&item| warehouse.stock[item as usize].quantity < threshold);
        Ended::Committed(low.count() as u64)
    }
}

impl District {
    /// The number of the customer `key`; by last name the middle one, rounded up, §2.5.2.2.
    fn find(&self, key: CustomerKey) -> Option<usize> {
        match key {
            CustomerKey::Number(number) => Some(number),
            CustomerKey::Name(name) => {
                let those = &self.by_name[name];
                those.get(those.len().saturating_sub(1) / 2).map(|&number| number as usize)
            }
        }
    }
}
