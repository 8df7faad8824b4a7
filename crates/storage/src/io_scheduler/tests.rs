//! Priority order and buffer ownership over a memory disk.

//~ tasks: file requests wait by label for disk, buffers and completion; none is lost or starves

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
fn scheduler(depth: usize, buffers: usize) -> (IoScheduler<u32>, MemoryDisk, FileId) {
    let disk = MemoryDisk::new(depth, buffers, 64);
    disk.put(NAME, &std::array::from_fn::<u8, 64, _>(|n| n as u8));
    let mut scheduler = IoScheduler::new(Box::new(disk.clone()));
    let file = scheduler.open(NAME.as_ref(), &FileOptions::default()).expect("the file exists").file;
    (scheduler, disk, file)
}

fn read(file: FileId, at: u64) -> IoRequest {
    IoRequest::Read { file, at, len: 1 }
}

/// Begins one read per level; the waiter is the index in `levels`.
fn begin(scheduler: &mut IoScheduler<u32>, file: FileId, levels: &[u8]) -> Vec<Ticket> {
    let levels = (0u32..).zip(levels);
    levels
        .map(|(n, &l)| scheduler.begin(at(0), level(l), read(file, n.into()), n).expect("there is capacity"))
        .collect()
}

fn notified(scheduler: &mut IoScheduler<u32>) -> Vec<u32> {
    std::iter::from_fn(|| scheduler.pop_waiter(at(1))).map(|(waiter, _)| waiter).collect()
}

#[test]
fn a_full_disk_makes_requests_wait_and_the_most_urgent_begins_first() {
    let (mut scheduler, disk, file) = scheduler(2, 8);
    let tickets = begin(&mut scheduler, file, &[7, 3, 5, 0, 7]);
    let mut order = Vec::new();
    while order.len() < tickets.len() {
        scheduler.submit(at(1));
        assert!(disk.in_flight() <= 2);
        assert!(disk.finish_one());
        scheduler.collect(at(1));
        order.extend(notified(&mut scheduler));
    }
    assert_eq!(order, [3, 1, 2, 0, 4]);
}

#[test]
fn completions_are_notified_by_priority_in_any_disk_order() {
    let (mut scheduler, disk, file) = scheduler(8, 8);
    begin(&mut scheduler, file, &[6, 6, 2, 0]);
    assert_eq!(scheduler.submit(at(1)), 4);
    for n in [1, 2, 0, 0] {
        assert!(disk.finish_nth(n));
    }
    scheduler.collect(at(3));
    assert_eq!(scheduler.oldest(), Some(at(3)));
    assert_eq!(notified(&mut scheduler), [3, 2, 1, 0]);
    assert_eq!(scheduler.oldest(), None);
}

#[test]
fn without_a_buffer_the_most_urgent_gets_the_next_one() {
    let (mut scheduler, disk, file) = scheduler(8, 1);
    let tickets = begin(&mut scheduler, file, &[7, 4, 1]);
    let mut order = Vec::new();
    for _ in 0..3 {
        assert_eq!(scheduler.submit(at(1)), 1, "one request has the buffer");
        disk.finish_one();
        scheduler.collect(at(1));
        let next = notified(&mut scheduler)[0];
        let (result, buffer) = scheduler.poll(tickets[next as usize], 9).expect("the request is complete");
        let buffer = buffer.expect("what was read");
        assert_eq!((result.expect("no error"), buffer.bytes()[0]), (1, next as u8));
        scheduler.release(buffer);
        order.push(next);
    }
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn a_cancelled_request_keeps_its_buffer_until_the_disk_completes_it() {
    let (mut scheduler, disk, file) = scheduler(4, 1);
    let [first, second] = begin(&mut scheduler, file, &[3, 3])[..] else { panic!("two") };
    scheduler.submit(at(1));
    assert_eq!(scheduler.cancel(first), Some(0));
    assert_eq!((scheduler.submit(at(2)), disk.in_flight()), (0, 1), "the disk holds the only buffer");
    disk.finish_one();
    scheduler.collect(at(3));
    assert_eq!(notified(&mut scheduler), [0; 0], "a cancelled request has no waiter");
    assert_eq!(scheduler.submit(at(4)), 1, "the second request gets the buffer");
    disk.finish_one();
    scheduler.collect(at(5));
    let (result, buffer) = scheduler.poll(second, 9).expect("the request is complete");
    assert_eq!((result.expect("no error"), buffer.expect("read").bytes()[0]), (1, 1));
    assert_eq!(scheduler.cancel(first), None, "a second cancellation has no effect");
}

#[test]
fn a_cancelled_request_is_skipped_and_frees_its_slot() {
    let (mut scheduler, disk, file) = scheduler(1, 4);
    let tickets = begin(&mut scheduler, file, &[5, 0, 5]);
    assert_eq!(scheduler.cancel(tickets[1]), Some(1));
    let mut order = Vec::new();
    for _ in 0..2 {
        assert_eq!(scheduler.submit(at(1)), 1);
        disk.finish_one();
        scheduler.collect(at(1));
        order.extend(notified(&mut scheduler));
    }
    assert_eq!(order, [0, 2]);
    // Cancelled requests do not accumulate while the disk is stalled.
    let (mut scheduler, _disk, file) = self::scheduler(1, 1);
    for _ in 0..2 * REQUESTS_MAX {
        let ticket = scheduler.begin(at(0), level(7), read(file, 0), 1).expect("there is capacity");
        assert_eq!(scheduler.cancel(ticket), Some(1));
    }
    assert_eq!(scheduler.slots.len(), 1);
    let full: Vec<_> =
        (0..REQUESTS_MAX).map(|_| scheduler.begin(at(0), level(7), read(file, 0), 1)).collect();
    assert!(full.iter().all(Result::is_ok));
    assert_eq!(scheduler.begin(at(0), level(0), read(file, 0), 2), Err(2), "REQUESTS_MAX requests exist");
}

#[test]
fn the_least_urgent_begins_within_its_bound_while_urgent_ones_keep_coming() {
    let (mut scheduler, disk, file) = scheduler(1, 2);
    let mut now = at(0);
    let mut tickets = vec![scheduler.begin(now, level(7), read(file, 0), 0).expect("there is capacity")];
    for before in 0..200 {
        for _ in 0..2 {
            let urgent = scheduler.begin(now, level(0), read(file, 1), tickets.len() as u32);
            tickets.push(urgent.expect("there is capacity"));
        }
        scheduler.submit(now);
        disk.finish_one();
        now += Span::from_micros(200);
        scheduler.collect(now);
        for waiter in notified(&mut scheduler) {
            if waiter == 0 {
                return assert!(before > 10, "urgent requests go first until the old one ages");
            }
            let (_, buffer) =
                scheduler.poll(tickets[waiter as usize], waiter).expect("the request is complete");
            scheduler.release(buffer.expect("what was read"));
        }
    }
    panic!("the least urgent request starves");
}

#[test]
fn an_error_reaches_the_waiter_and_the_buffer_is_returned() {
    let (mut scheduler, disk, file) = scheduler(4, 1);
    let [ticket] = begin(&mut scheduler, file, &[0])[..] else { panic!("one") };
    scheduler.submit(at(1));
    disk.fail_next(io::ErrorKind::StorageFull);
    disk.finish_one();
    scheduler.collect(at(1));
    let (result, buffer) = scheduler.poll(ticket, 0).expect("the request is complete");
    assert_eq!(result.expect_err("the request failed").kind(), io::ErrorKind::StorageFull);
    assert!(buffer.is_some());
}

#[derive(Clone, Debug)]
enum Act {
    Begin { level: u8, at: u8, write: bool },
    Cancel(u8),
    Submit,
    Finish(u8),
    Fetch,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..8u8, 0..64u8, any::<bool>()).prop_map(|(level, at, write)| Act::Begin { level, at, write }),
        1 => any::<u8>().prop_map(Act::Cancel),
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
        let (mut scheduler, disk, file) = scheduler(2, BUFFERS);
        // Tickets, indexed by waiter.
        let mut open: Vec<Option<Ticket>> = Vec::new();
        let fetch = |scheduler: &mut IoScheduler<u32>, open: &mut Vec<Option<Ticket>>| {
            while let Some((waiter, _)) = scheduler.pop_waiter(at(1)) {
                let ticket = open[waiter as usize].take().expect("notified once, and not cancelled");
                let (result, buffer) = scheduler.poll(ticket, waiter).map_err(|_| "pending").expect("the request is complete");
                result.expect("no error");
                buffer.into_iter().for_each(|buffer| scheduler.release(buffer));
            }
        };
        for act in acts {
            match act {
                Act::Begin { level: l, at: offset, write } => {
                    let request = if write { IoRequest::Sync { file } } else { read(file, offset.into()) };
                    let waiter = open.len() as u32;
                    open.push(Some(scheduler.begin(at(0), level(l), request, waiter).expect("there is capacity")));
                }
                Act::Cancel(n) if !open.is_empty() => {
                    let n = usize::from(n) % open.len();
                    if let Some(ticket) = open[n].take() {
                        prop_assert_eq!(scheduler.cancel(ticket), Some(n as u32));
                    }
                }
                Act::Cancel(_) => {}
                Act::Submit => { scheduler.submit(at(1)); }
                Act::Finish(n) => {
                    let running = disk.in_flight();
                    prop_assert_eq!(disk.finish_nth(usize::from(n) % running.max(1)), running > 0);
                    scheduler.collect(at(1));
                }
                Act::Fetch => fetch(&mut scheduler, &mut open),
            }
        }
        disk.complete_immediately();
        for _ in 0..open.len() + 2 {
            scheduler.collect(at(2));
            fetch(&mut scheduler, &mut open);
            scheduler.submit(at(2));
        }
        prop_assert!(open.iter().all(Option::is_none), "a request is still open");
        prop_assert_eq!((scheduler.buffers.len(), scheduler.in_flight), (BUFFERS, 0));
    }
}
