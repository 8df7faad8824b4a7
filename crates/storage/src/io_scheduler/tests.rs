//! Priority order and buffer ownership over a memory disk.

use proptest::prelude::*;
use queueing::Span;

use super::*;
use crate::memory::MemoryDisk;

const NAME: &str = "file";

fn level(n: u8) -> Priority {
    Priority::new(n).expect("a level")
}

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

/// Scheduler whose waiters are numbers, its disk, and a file of 64 bytes, each its own offset.
fn desk(depth: usize, buffers: usize) -> (IoScheduler<u32>, MemoryDisk, FileId) {
    let disk = MemoryDisk::new(depth, buffers, 64);
    disk.put(NAME, &std::array::from_fn::<u8, 64, _>(|n| n as u8));
    let mut desk = IoScheduler::new(Box::new(disk.clone()));
    let file = desk.open(NAME.as_ref(), &Options::default()).expect("the file exists").file;
    (desk, disk, file)
}

fn read(file: FileId, at: u64) -> IoRequest {
    IoRequest::Read { file, at, len: 1 }
}

/// Begins one read per level; the waiter is the index in `levels`.
fn begin(desk: &mut IoScheduler<u32>, file: FileId, levels: &[u8]) -> Vec<Ticket> {
    let levels = (0u32..).zip(levels);
    levels
        .map(|(n, &l)| desk.begin(at(0), level(l), read(file, n.into()), n).expect("there is capacity"))
        .collect()
}

fn told(desk: &mut IoScheduler<u32>) -> Vec<u32> {
    std::iter::from_fn(|| desk.tell(at(1))).map(|(who, _)| who).collect()
}

#[test]
fn a_full_disk_makes_requests_wait_and_the_most_urgent_begins_first() {
    let (mut desk, disk, file) = desk(2, 8);
    let tickets = begin(&mut desk, file, &[7, 3, 5, 0, 7]);
    let mut order = Vec::new();
    while order.len() < tickets.len() {
        desk.submit(at(1));
        assert!(disk.in_flight() <= 2);
        assert!(disk.finish_one());
        desk.collect(at(1));
        order.extend(told(&mut desk));
    }
    assert_eq!(order, [3, 1, 2, 0, 4]);
}

#[test]
fn what_is_over_is_told_by_label_whatever_the_disk_did_first() {
    let (mut desk, disk, file) = desk(8, 8);
    begin(&mut desk, file, &[6, 6, 2, 0]);
    assert_eq!(desk.submit(at(1)), 4);
    for n in [1, 2, 0, 0] {
        assert!(disk.finish_nth(n));
    }
    desk.collect(at(3));
    assert_eq!(desk.oldest(), Some(at(3)));
    assert_eq!(told(&mut desk), [3, 2, 1, 0]);
    assert_eq!(desk.oldest(), None);
}

#[test]
fn without_a_buffer_the_most_urgent_gets_the_next_one() {
    let (mut desk, disk, file) = desk(8, 1);
    let tickets = begin(&mut desk, file, &[7, 4, 1]);
    let mut order = Vec::new();
    for _ in 0..3 {
        assert_eq!(desk.submit(at(1)), 1, "one request has the buffer");
        disk.finish_one();
        desk.collect(at(1));
        let next = told(&mut desk)[0];
        let (result, buffer) = desk.poll(tickets[next as usize], 9).expect("the request is complete");
        let buffer = buffer.expect("what was read");
        assert_eq!((result.expect("no error"), buffer.bytes()[0]), (1, next as u8));
        desk.give_back(buffer);
        order.push(next);
    }
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn a_request_that_is_given_up_keeps_its_buffer_until_the_disk_is_done() {
    let (mut desk, disk, file) = desk(4, 1);
    let [first, second] = begin(&mut desk, file, &[3, 3])[..] else { panic!("two") };
    desk.submit(at(1));
    assert_eq!(desk.give_up(first), Some(0));
    assert_eq!((desk.submit(at(2)), disk.in_flight()), (0, 1), "the disk holds the only buffer");
    disk.finish_one();
    desk.collect(at(3));
    assert_eq!(told(&mut desk), [0; 0], "a cancelled request has no waiter");
    assert_eq!(desk.submit(at(4)), 1, "the second request gets the buffer");
    disk.finish_one();
    desk.collect(at(5));
    let (result, buffer) = desk.poll(second, 9).expect("the request is complete");
    assert_eq!((result.expect("no error"), buffer.expect("read").bytes()[0]), (1, 1));
    assert_eq!(desk.give_up(first), None, "a second cancellation has no effect");
}

#[test]
fn who_is_given_up_in_line_is_passed_over_and_leaves_no_room_taken() {
    let (mut desk, disk, file) = desk(1, 4);
    let tickets = begin(&mut desk, file, &[5, 0, 5]);
    assert_eq!(desk.give_up(tickets[1]), Some(1));
    let mut order = Vec::new();
    for _ in 0..2 {
        assert_eq!(desk.submit(at(1)), 1);
        disk.finish_one();
        desk.collect(at(1));
        order.extend(told(&mut desk));
    }
    assert_eq!(order, [0, 2]);
    // Cancelled requests do not accumulate while the disk is stalled.
    let (mut desk, _disk, file) = self::desk(1, 1);
    for _ in 0..2 * REQUESTS_MAX {
        let ticket = desk.begin(at(0), level(7), read(file, 0), 1).expect("there is capacity");
        assert_eq!(desk.give_up(ticket), Some(1));
    }
    assert_eq!(desk.slots.len(), 1);
    let full: Vec<_> = (0..REQUESTS_MAX).map(|_| desk.begin(at(0), level(7), read(file, 0), 1)).collect();
    assert!(full.iter().all(Result::is_ok));
    assert_eq!(desk.begin(at(0), level(0), read(file, 0), 2), Err(2), "REQUESTS_MAX requests exist");
}

#[test]
fn the_least_urgent_begins_within_its_bound_while_urgent_ones_keep_coming() {
    let (mut desk, disk, file) = desk(1, 2);
    let mut now = at(0);
    let mut tickets = vec![desk.begin(now, level(7), read(file, 0), 0).expect("there is capacity")];
    for before in 0..200 {
        for _ in 0..2 {
            let urgent = desk.begin(now, level(0), read(file, 1), tickets.len() as u32);
            tickets.push(urgent.expect("there is capacity"));
        }
        desk.submit(now);
        disk.finish_one();
        now += Span::from_micros(200);
        desk.collect(now);
        for who in told(&mut desk) {
            if who == 0 {
                return assert!(before > 10, "urgent requests go first until the old one ages");
            }
            let (_, buffer) = desk.poll(tickets[who as usize], who).expect("the request is complete");
            desk.give_back(buffer.expect("what was read"));
        }
    }
    panic!("the least urgent request starves");
}

#[test]
fn an_error_is_the_askers_and_the_buffer_comes_back() {
    let (mut desk, disk, file) = desk(4, 1);
    let [ticket] = begin(&mut desk, file, &[0])[..] else { panic!("one") };
    desk.submit(at(1));
    disk.fail_next(io::ErrorKind::StorageFull);
    disk.finish_one();
    desk.collect(at(1));
    let (result, buffer) = desk.poll(ticket, 0).expect("the request is complete");
    assert_eq!(result.expect_err("the request failed").kind(), io::ErrorKind::StorageFull);
    assert!(buffer.is_some());
}

#[derive(Clone, Debug)]
enum Act {
    Begin { level: u8, at: u8, write: bool },
    GiveUp(u8),
    Submit,
    Finish(u8),
    Fetch,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..8u8, 0..64u8, any::<bool>()).prop_map(|(level, at, write)| Act::Begin { level, at, write }),
        1 => any::<u8>().prop_map(Act::GiveUp),
        2 => Just(Act::Submit),
        3 => any::<u8>().prop_map(Act::Finish),
        3 => Just(Act::Fetch),
    ]
}

proptest! {
    /// No request is lost, each completes once, and in the end every buffer is
    /// free, for any order of starts, completions and cancellations.
    #[test]
    fn no_request_and_no_buffer_is_lost(acts in prop::collection::vec(act(), 1..80)) {
        const BUFFERS: usize = 3;
        let (mut desk, disk, file) = desk(2, BUFFERS);
        // Tickets, indexed by waiter.
        let mut open: Vec<Option<Ticket>> = Vec::new();
        let fetch = |desk: &mut IoScheduler<u32>, open: &mut Vec<Option<Ticket>>| {
            while let Some((who, _)) = desk.tell(at(1)) {
                let ticket = open[who as usize].take().expect("notified once, and not cancelled");
                let (result, buffer) = desk.poll(ticket, who).map_err(|_| "pending").expect("the request is complete");
                result.expect("no error");
                buffer.into_iter().for_each(|buffer| desk.give_back(buffer));
            }
        };
        for act in acts {
            match act {
                Act::Begin { level: l, at: place, write } => {
                    let asked = if write { IoRequest::Sync { file } } else { read(file, place.into()) };
                    let who = open.len() as u32;
                    open.push(Some(desk.begin(at(0), level(l), asked, who).expect("there is capacity")));
                }
                Act::GiveUp(n) if !open.is_empty() => {
                    let n = usize::from(n) % open.len();
                    if let Some(ticket) = open[n].take() {
                        prop_assert_eq!(desk.give_up(ticket), Some(n as u32));
                    }
                }
                Act::GiveUp(_) => {}
                Act::Submit => { desk.submit(at(1)); }
                Act::Finish(n) => {
                    let running = disk.in_flight();
                    prop_assert_eq!(disk.finish_nth(usize::from(n) % running.max(1)), running > 0);
                    desk.collect(at(1));
                }
                Act::Fetch => fetch(&mut desk, &mut open),
            }
        }
        disk.be_quick();
        for _ in 0..open.len() + 2 {
            desk.collect(at(2));
            fetch(&mut desk, &mut open);
            desk.submit(at(2));
        }
        prop_assert!(open.iter().all(Option::is_none), "a request is still open");
        prop_assert_eq!((desk.buffers.len(), desk.in_flight), (BUFFERS, 0));
    }
}
