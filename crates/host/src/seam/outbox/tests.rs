//! Both sides of the file agree where an outbox lies, whose it is, and who sleeps.

use std::cell::Cell;
use std::iter::once;

use super::*;

fn both(stacks: u16) -> (Outboxes, Outboxes) {
    let (stack, file) = Outboxes::new(stacks).unwrap();
    (stack, Outboxes::map(file.as_fd()).unwrap())
}

fn id(slot: u64, generation: u64) -> u64 {
    slot << 32 | generation
}

fn taken(stack: &Outboxes, id: u64) -> Vec<u8> {
    let mut into = vec![0; BYTES + 1];
    let len = stack.take(id, &mut into);
    into.truncate(len);
    into
}

#[test]
fn each_stack_hears_of_its_own_connections_that_were_written_to() {
    for stacks in [1, 3] {
        let (stack, program) = both(stacks);
        let ids = [0, 1, 2, 63, 64, 4095, 4096, OUTBOXES as u64 - 1].map(|slot| id(slot, slot + 1));
        for id in ids {
            stack.begin(id);
            stack.open(id);
            assert!(program.put(id, once(&id.to_ne_bytes()[..]), || true));
        }
        for nth in 0..stacks {
            let mut heard = Vec::new();
            let wanted: Vec<u64> =
                ids.into_iter().filter(|id| (id >> 32) % u64::from(stacks) == u64::from(nth)).collect();
            assert!(!stack.sleep(nth), "something was written");
            assert_eq!(stack.written(nth, |id| heard.push(id)), !wanted.is_empty());
            assert_eq!(heard, wanted);
            assert!(!stack.written(nth, |_| panic!("it was told")));
            heard.iter().for_each(|&id| assert_eq!(taken(&stack, id), id.to_ne_bytes()));
            assert!(stack.sleep(nth));
        }
        assert!(program.asleep(ids[0]).is_some());
    }
}

#[test]
fn connections_beyond_have_none() {
    let (stack, program) = both(1);
    let beyond = id(OUTBOXES as u64, 1);
    stack.begin(beyond);
    stack.open(beyond);
    assert!(!program.put(beyond, once(&b"a"[..]), || true));
    assert_eq!((taken(&stack, beyond).len(), program.asleep(beyond)), (0, None));
}

#[test]
fn a_message_has_room_or_takes_the_pair() {
    let (stack, program) = both(1);
    let conn = id(5, 1);
    stack.begin(conn);
    stack.open(conn);
    let most = vec![7; BYTES];
    assert!(!program.put(conn, [&most[..], b"a"].into_iter(), || true));
    assert!(program.put(conn, [&b""[..], &most[..]].into_iter(), || true));
    assert!(!program.put(conn, once(&b"a"[..]), || true));
    assert_eq!(taken(&stack, conn), most);
    assert!(program.put(conn, once(&most[..]), || true), "an empty one has room again");
}

#[test]
fn memory_of_what_was_taken_is_given_back_where_there_is_much_of_it() {
    let (stack, file) = Outboxes::new(1).unwrap();
    let program = Outboxes::map(file.as_fd()).unwrap();
    let held = || rustix::fs::fstat(&file).unwrap().st_blocks as usize * 512;
    let most = vec![7; BYTES];
    let count = 2 * HELD_MAX / BYTES;
    for round in 0..3 {
        for slot in 0..count as u64 {
            let conn = id(slot, round);
            stack.begin(conn);
            stack.open(conn);
            for _ in 0..2 {
                assert!(program.put(conn, once(&most[..]), || true));
                assert_eq!(taken(&stack, conn), most);
                stack.relieve(conn);
            }
        }
        let bound = HELD_MAX + (count + 3) * PAGE + SLOT;
        assert!(held() <= bound, "{} of {bound} in round {round}", held());
    }
    // What is full keeps what it has.
    let conn = id(0, 2);
    assert!(program.put(conn, once(&most[..]), || true));
    stack.relieve(conn);
    stack.relieve(id(0, 1));
    assert_eq!(taken(&stack, conn), most, "nor is it for who had it before");
}

#[test]
fn no_memory_goes_back_under_who_writes() {
    let (stack, program) = both(1);
    let most = vec![7; BYTES];
    let count = HELD_MAX / beyond(BYTES) + 2;
    for slot in 0..count as u64 {
        let conn = id(slot, 1);
        stack.begin(conn);
        stack.open(conn);
        assert!(program.put(conn, once(&most[..]), || true));
        assert_eq!(taken(&stack, conn), most);
    }
    let conn = id(0, 1);
    let asked = Cell::new(0);
    let pieces = most.chunks(BYTES / 2).inspect(|_| {
        asked.set(asked.get() + 1);
        // Both were asked for their length; the first has been copied.
        if asked.get() == 4 {
            stack.relieve(conn);
        }
    });
    assert!(program.put(conn, pieces, || true));
    assert_eq!(asked.get(), 4);
    assert!(taken(&stack, conn) == most, "some of it is zero");
    stack.relieve(conn);
    assert!(program.put(conn, once(&most[..]), || true), "it is open as it was");
    assert!(taken(&stack, conn) == most);
}

#[test]
fn who_has_woken_a_stack_says_so_once_for_each_sleep() {
    let (stack, program) = both(1);
    let conn = id(0, 1);
    stack.begin(conn);
    stack.open(conn);
    assert_eq!(program.asleep(conn), None);
    assert!(stack.sleep(0));
    let first = program.asleep(conn).expect("it sleeps");
    assert!(!program.put(conn, once(&b"a"[..]), || true), "nobody would wake it");
    program.woken(conn, first);
    assert!(program.put(conn, once(&b"a"[..]), || true), "somebody has");
    stack.wake(0);
    assert!(!stack.sleep(0), "what was written meanwhile is to be looked at");
    assert!(stack.written(0, |id| assert_eq!(id, conn)));
    assert!(stack.sleep(0));
    program.woken(conn, first);
    assert!(program.asleep(conn).is_some(), "that was another sleep");
}

#[test]
fn only_such_a_file_is_mapped_and_nobody_cuts_it() {
    let (_, file) = Outboxes::new(2).unwrap();
    assert!(ftruncate(&file, 0).is_err());
    let other = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
    assert!(Outboxes::map(other.as_fd()).is_err());
}
