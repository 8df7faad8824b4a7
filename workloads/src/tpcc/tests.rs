//! The store stays consistent under any transactions, and violations are detected.

//~ workloads: the consistency conditions of TPC-C §3.3.2 hold, and each violation is found

use proptest::prelude::*;

use super::draw::{CustomerKey, NewOrder, Payment};
use super::*;

const SMALL: TableSizes = TableSizes { warehouses: 2, items: 50, customers: 30, orders_max: 400 };

fn store(seed: u64) -> Database {
    Database::new(SMALL, seed)
}

#[test]
fn a_new_store_is_consistent_and_filled_as_specified() {
    let store = store(1);
    assert_eq!(store.consistent(), Ok(()));
    for district in store.warehouses.iter().flat_map(|warehouse| &warehouse.districts) {
        // Condition 11: of 3000 orders, 2100 are delivered.
        assert_eq!(district.orders.len() - district.waiting.len(), 21);
        assert_eq!(district.customers.iter().filter(|customer| customer.last_order.is_some()).count(), 30);
    }
}

#[test]
fn a_new_order_reduces_the_stock_and_is_undelivered() {
    let mut store = store(1);
    let before = store.warehouses.clone();
    let order = NewOrder { home: (0, 3), customer: 4, lines: vec![(7, 0, 5), (8, 1, 1)] };
    let Ended::Committed(owed) = store.new_order(&order) else { panic!("both items are there") };
    let (was, is) = (&before[0].districts[3], &store.warehouses[0].districts[3]);
    assert_eq!((is.next_order, is.orders.len()), (was.next_order + 1, was.orders.len() + 1));
    let total = 5 * store.prices[7] + store.prices[8];
    assert!((total / 2..total * 15 / 10).contains(&(owed as i64)), "{owed} of {total}: taxes and discount");
    let (was, is) = (&before[1].stock[8], &store.warehouses[1].stock[8]);
    assert_eq!((is.ytd, is.orders, is.remote), (1, 1, 1));
    assert!(is.quantity == was.quantity - 1 || is.quantity == was.quantity + 90);
    for _ in 0..10 {
        store.delivery(0, 6);
    }
    let district = &store.warehouses[0].districts[3];
    let order = district.orders.last().unwrap();
    assert_eq!((order.carrier, district.customers[4].last_order), (Some(6), Some(30)));
    assert_eq!(store.consistent(), Ok(()));
}

#[test]
fn an_order_of_an_unknown_item_is_rolled_back() {
    let mut store = store(1);
    let before = store.warehouses.clone();
    let order = NewOrder { home: (0, 3), customer: 4, lines: vec![(7, 0, 5), (50, 0, 1)] };
    assert_eq!(store.new_order(&order), Ended::RolledBack);
    assert!(store.warehouses == before);
}

#[test]
fn a_payment_by_name_selects_the_middle_customer() {
    let mut store = Database::new(TableSizes { customers: 1200, orders_max: 1300, ..SMALL }, 1);
    let district = &store.warehouses[1].districts[2];
    let name = district.by_name.iter().position(|those| those.len() >= 2).expect("some share a name");
    let those = &district.by_name[name];
    let middle = those[(those.len() - 1) / 2] as usize;
    let balance = district.customers[middle].balance;
    let payment = Payment { home: (0, 0), from: (1, 2), key: CustomerKey::Name(name), amount: 700 };
    assert!(matches!(store.payment(&payment), Ended::Committed(_)));
    assert_eq!(store.warehouses[1].districts[2].customers[middle].balance, balance - 700);
    assert_eq!(store.consistent(), Ok(()));
}

#[test]
fn a_full_table_rolls_back() {
    let mut store = store(1);
    let order = NewOrder { home: (0, 0), customer: 0, lines: vec![(1, 0, 1)] };
    let ended: Vec<_> = (0..400).map(|_| store.new_order(&order)).collect();
    assert_eq!(ended.iter().filter(|ended| **ended == Ended::RolledBack).count(), 30);
    assert_eq!(store.consistent(), Ok(()));
}

#[test]
fn transactions_are_drawn_in_the_mix_and_one_order_in_a_hundred_fails() {
    let mut store = Database::new(TableSizes { orders_max: 20_000, ..SMALL }, 1);
    let (mut orders, mut failed, mut payments) = (0, 0, 0);
    for _ in 0..20_000 {
        match store.any() {
            (Transaction::NewOrder, ended) => {
                orders += 1;
                failed += u32::from(ended == Ended::RolledBack);
            }
            (Transaction::Payment, _) => payments += 1,
            _ => {}
        }
    }
    assert!((8700..9300).contains(&orders) && (8300..8900).contains(&payments), "{orders} {payments}");
    assert!((50..140).contains(&failed), "{failed} of {orders}");
    let check = store.check();
    assert!(check.holds, "{}", check.says);
}

#[test]
fn every_broken_consistency_condition_is_detected() {
    type Break = (u8, fn(&mut Warehouse));
    let breaks: [Break; 10] = [
        (1, |warehouse| warehouse.ytd += 1),
        (2, |warehouse| warehouse.districts[0].next_order += 1),
        (3, |warehouse| {
            warehouse.districts[0].waiting.remove(2);
        }),
        (4, |warehouse| {
            warehouse.districts[0].orders[5].lines.pop();
        }),
        (5, |warehouse| warehouse.districts[0].orders[5].carrier = None),
        (6, |warehouse| {
            let orders = &mut warehouse.districts[0].orders;
            let line = orders[5].lines.pop().unwrap();
            orders[6].lines.push(line);
        }),
        (7, |warehouse| warehouse.districts[0].orders[5].lines[0].delivered = None),
        (8, |warehouse| warehouse.districts[0].history[3].amount += 1),
        (10, |warehouse| warehouse.districts[0].customers[3].balance += 1),
        (12, |warehouse| warehouse.districts[0].customers[3].paid += 1),
    ];
    for (condition, break_it) in breaks {
        let mut store = store(1);
        break_it(&mut store.warehouses[1]);
        let broken = store.consistent().unwrap_err();
        assert_eq!((broken.condition, broken.warehouse), (condition, 1), "{broken}");
        assert!(!store.check().holds);
    }
    let mut store = store(1);
    store.warehouses[0].districts[0].ytd += 1;
    store.warehouses[0].districts[1].ytd -= 1;
    assert_eq!(store.consistent().unwrap_err().condition, 9);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_transactions_leave_a_consistent_store(
        seed: u64,
        kinds in prop::collection::vec(0..MIX.len(), 1..400),
    ) {
        let mut store = store(seed);
        for kind in kinds {
            let before = (store.now, store.warehouses.len());
            store.run(MIX[kind].0);
            prop_assert_eq!((store.now, store.warehouses.len()), (before.0 + 1, 2));
        }
        prop_assert_eq!(store.consistent(), Ok(()));
    }

    #[test]
    fn a_store_replays_from_its_seed(seed: u64) {
        let [mut one, mut other] = [seed; 2].map(store);
        for _ in 0..100 {
            prop_assert_eq!(one.any(), other.any());
        }
        prop_assert!(one.warehouses == other.warehouses);
    }
}
