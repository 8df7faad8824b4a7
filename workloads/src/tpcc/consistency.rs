//! The consistency conditions of every committed state.
//!
//! Source: TPC-C §3.3.2.1 to §3.3.2.12, less the eleventh, which concerns only the initial
//! population (checked by its test). The specification demands the first four of every
//! implementation.

use std::collections::HashMap;
use std::fmt;

use super::Database;
use super::rows::{District, Warehouse};

/// A violated condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Number in §3.3.2.
    pub condition: u8,
    /// The warehouse.
    pub warehouse: usize,
    /// The values that differ.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { condition, warehouse, what } = self;
        write!(f, "condition 3.3.2.{condition} is broken in warehouse {warehouse}: {what}")
    }
}

impl Database {
    /// Checks all conditions.
    ///
    /// # Errors
    /// The first violated one.
    pub fn consistent(&self) -> Result<(), Broken> {
        let paid = self.paid();
        for (at, warehouse) in self.warehouses.iter().enumerate() {
            let broken = |(condition, what)| Broken { condition, warehouse: at, what };
            of_warehouse(warehouse).map_err(broken)?;
            for (number, district) in warehouse.districts.iter().enumerate() {
                let somewhere = |(condition, what)| (condition, format!("district {number}: {what}"));
                of_orders(district).map_err(somewhere).map_err(broken)?;
                let paid = |customer: u32| paid.get(&(at as u32, number as u8, customer)).copied();
                of_customers(district, |customer| paid(customer).unwrap_or(0))
                    .map_err(somewhere)
                    .map_err(broken)?;
            }
        }
        Ok(())
    }

    /// Payments of every customer, by the history of all districts.
    fn paid(&self) -> HashMap<(u32, u8, u32), i64> {
        let mut paid = HashMap::new();
        let districts = self.warehouses.iter().flat_map(|warehouse| &warehouse.districts);
        for history in districts.flat_map(|district| &district.history) {
            *paid.entry(history.customer).or_default() += history.amount;
        }
        paid
    }
}

type Found = Result<(), (u8, String)>;

/// Checks that `left` equals `right`, by condition `number`.
fn same<T: PartialEq + fmt::Debug>(number: u8, what: &str, left: T, right: T) -> Found {
    match left == right {
        true => Ok(()),
        false => Err((number, format!("{what}: {left:?} for {right:?}"))),
    }
}

fn of_warehouse(warehouse: &Warehouse) -> Found {
    let districts = &warehouse.districts;
    same(1, "W_YTD over its districts", warehouse.ytd, districts.iter().map(|d| d.ytd).sum())?;
    let amounts = |district: &District| district.history.iter().map(|h| h.amount).sum::<i64>();
    same(8, "W_YTD over the history", warehouse.ytd, districts.iter().map(amounts).sum())?;
    for district in districts {
        same(9, "D_YTD over the history", district.ytd, amounts(district))?;
    }
    Ok(())
}

fn of_orders(district: &District) -> Found {
    let District { orders, waiting, .. } = district;
    let newest = orders.len() as u32;
    same(2, "D_NEXT_O_ID over the newest order", district.next_order, newest)?;
    if let (Some(first), Some(last)) = (waiting.front(), waiting.back()) {
        same(2, "the newest NEW-ORDER", *last + 1, newest)?;
        same(3, "NEW-ORDER's rows", waiting.len() as u32, last - first + 1)?;
        same(3, "NEW-ORDER's order", waiting.iter().copied().eq(*first..=*last), true)?;
    }
    let counted: usize = orders.iter().map(|order| usize::from(order.lines_count)).sum();
    same(4, "O_OL_CNT over all orders", counted, orders.iter().map(|order| order.lines.len()).sum())?;
    let oldest = waiting.front().copied().unwrap_or(newest);
    for (number, order) in (0..).zip(orders) {
        let is_delivered = order.carrier.is_some();
        same(5, &format!("order {number} has a carrier"), is_delivered, number < oldest)?;
        let lines = &order.lines;
        same(6, &format!("lines of order {number}"), lines.len(), order.lines_count.into())?;
        let dated = lines.iter().all(|line| line.delivered.is_some() == is_delivered);
        same(7, &format!("OL_DELIVERY_D of order {number}"), dated, true)?;
    }
    Ok(())
}

fn of_customers(district: &District, paid: impl Fn(u32) -> i64) -> Found {
    let mut delivered = vec![0; district.customers.len()];
    for order in district.orders.iter().filter(|order| order.carrier.is_some()) {
        delivered[order.customer as usize] += order.lines.iter().map(|line| line.amount).sum::<i64>();
    }
    for ((number, customer), delivered) in (0..).zip(&district.customers).zip(delivered) {
        let paid = paid(number);
        same(10, &format!("C_BALANCE of customer {number}"), customer.balance, delivered - paid)?;
        let all = customer.balance + customer.paid;
        same(12, &format!("C_BALANCE + C_YTD_PAYMENT of customer {number}"), all, delivered)?;
    }
    Ok(())
}
