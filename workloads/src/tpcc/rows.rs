//! The tables, nested by ownership.
//!
//! A row's number is its index: districts, customers, items and orders count from 0 here and from 1
//! in the specification. Money is in cents, rates in parts of 10,000. Source: TPC-C §1.3.

use std::collections::VecDeque;

/// Number of districts of a warehouse.
pub(super) const DISTRICTS: usize = 10;
/// Number of last names.
pub(super) const NAMES: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Warehouse {
    pub tax: i64,
    pub ytd: i64,
    pub districts: Vec<District>,
    pub stock: Vec<Stock>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct District {
    pub tax: i64,
    pub ytd: i64,
    /// Number of the next order.
    pub next_order: u32,
    pub customers: Vec<Customer>,
    /// Customers of each last name, by first name.
    pub by_name: Vec<Vec<u32>>,
    pub orders: Vec<Order>,
    /// NEW-ORDER: undelivered orders, oldest first.
    pub waiting: VecDeque<u32>,
    pub history: Vec<History>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Customer {
    /// Orders the customers of one last name.
    pub first: u64,
    pub bad_credit: bool,
    pub discount: i64,
    pub balance: i64,
    pub paid: i64,
    pub payments: u32,
    pub deliveries: u32,
    /// Notes on a customer with bad credit, at most [`DATA_MAX`] bytes.
    pub data: String,
    pub last_order: Option<u32>,
}

/// Maximum length of C_DATA.
pub(super) const DATA_MAX: usize = 500;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    pub customer: u32,
    pub entered: u64,
    pub carrier: Option<u8>,
    pub lines_count: u8,
    pub lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub item: u32,
    pub supplier: u32,
    pub quantity: u8,
    pub amount: i64,
    pub delivered: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stock {
    pub quantity: i64,
    pub ytd: u64,
    pub orders: u32,
    pub remote: u32,
}

/// A payment, stored in the district where it was made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct History {
    /// The customer's warehouse, district, number.
    pub customer: (u32, u8, u32),
    pub amount: i64,
}
