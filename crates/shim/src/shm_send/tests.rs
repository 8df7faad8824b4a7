//! Tests of the file layout, with both sides in one process.

use std::cell::Cell;
use std::iter::once;
use std::os::fd::AsFd;

use super::*;
use crate::LabelReader;

fn both(stacks: u16) -> (ShmSendBuffers, ShmSendBuffers) {
    let (stack, file) = ShmSendBuffers::new(stacks).unwrap();
    let program = program(&file);
    (stack, program)
}

/// A program that has mapped all buffers.
fn program(file: &OwnedFd) -> ShmSendBuffers {
    let program = ShmSendBuffers::map(file.as_fd()).unwrap();
    for nth in (0..OUTBOXES as u64).step_by(CHUNK / SLOT) {
        program.reach(file.as_fd(), id(nth, 0)).unwrap();
    }
    program
}

fn id(slot: u64, generation: u64) -> u64 {
    slot << 32 | generation
}

fn taken(stack: &ShmSendBuffers, id: u64) -> Vec<u8> {
    let mut into = vec![0; BYTES + 1];
    let len = stack.take(id, &mut into);
    into.truncate(len);
    into
}

#[test]
fn marks_are_of_one_connection_and_go_with_it() {
    let (stack, program) = both(3);
    for slot in [0, 63, 64, OUTBOXES as u64 - 1] {
        let (one, next) = (id(slot, 1), id(slot ^ 1, 1));
        for id in [one, next] {
            program.accept(id);
            program.set_more(id, true);
            stack.begin(id);
            assert!(!stack.is_accepted(id) && !stack.take_more(id), "slot {slot}");
        }
        program.accept(one);
        program.set_more(one, true);
        assert_eq!((stack.is_accepted(next), stack.take_more(next)), (false, false));
        assert_eq!((stack.is_accepted(one), stack.take_more(one)), (true, true));
        assert_eq!((stack.is_accepted(one), stack.take_more(one)), (true, false), "reported once");
        program.set_more(one, true);
        program.set_more(one, false);
        assert!(!stack.take_more(one));
    }
    let without = id(OUTBOXES as u64, 0);
    stack.begin(without);
    program.set_more(without, true);
    assert_eq!((stack.is_accepted(without), stack.take_more(without)), (true, false), "no send buffer");
    assert!(stack.sleep(0) && !stack.written(0, |_| ()), "nothing was written");
}

#[test]
fn each_stack_is_notified_of_writes_to_its_own_connections() {
    for stacks in [1, 3] {
        let (stack, program) = both(stacks);
        let ids = [0, 1, 2, 63, 64, 4095, 4096, OUTBOXES as u64 - 1].map(|slot| id(slot, slot + 1));
        for id in ids {
            stack.begin(id);
            stack.open(id);
            assert!(program.put(id, once(&id.to_ne_bytes()[..]), || true));
        }
        for nth in 0..stacks {
            let mut written = Vec::new();
            let wanted: Vec<u64> =
                ids.into_iter().filter(|id| (id >> 32) % u64::from(stacks) == u64::from(nth)).collect();
            assert!(!stack.sleep(nth), "something was written");
            assert_eq!(stack.written(nth, |id| written.push(id)), !wanted.is_empty());
            assert_eq!(written, wanted);
            assert!(!stack.written(nth, |_| panic!("reported once")));
            written.iter().for_each(|&id| assert_eq!(taken(&stack, id), id.to_ne_bytes()));
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
    assert!(program.put(conn, once(&most[..]), || true), "an empty buffer has space");
}

#[test]
fn memory_of_what_was_taken_is_given_back_where_there_is_much_of_it() {
    let (stack, file) = ShmSendBuffers::new(1).unwrap();
    let program = program(&file);
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
    // A full buffer keeps its memory.
    let conn = id(0, 2);
    assert!(program.put(conn, once(&most[..]), || true));
    stack.relieve(conn);
    stack.relieve(id(0, 1));
    assert_eq!(taken(&stack, conn), most, "an earlier connection must not read it");
}

#[test]
fn no_memory_is_released_during_a_write() {
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
        // Both lengths were read; the first piece has been copied.
        if asked.get() == 4 {
            stack.relieve(conn);
        }
    });
    assert!(program.put(conn, pieces, || true));
    assert_eq!(asked.get(), 4);
    assert!(taken(&stack, conn) == most, "some bytes are zero");
    stack.relieve(conn);
    assert!(program.put(conn, once(&most[..]), || true), "still open");
    assert!(taken(&stack, conn) == most);
}

#[test]
fn a_stack_is_woken_once_per_sleep() {
    let (stack, program) = both(1);
    let conn = id(0, 1);
    stack.begin(conn);
    stack.open(conn);
    assert_eq!(program.asleep(conn), None);
    assert!(stack.sleep(0));
    let first = program.asleep(conn).expect("asleep");
    assert!(!program.put(conn, once(&b"a"[..]), || true), "the stack sleeps");
    program.woken(conn, first);
    assert!(program.put(conn, once(&b"a"[..]), || true), "it was woken");
    stack.wake(0);
    assert!(!stack.sleep(0), "there are new writes");
    assert!(stack.written(0, |id| assert_eq!(id, conn)));
    assert!(stack.sleep(0));
    program.woken(conn, first);
    assert!(program.asleep(conn).is_some(), "an earlier sleep");
}

#[test]
fn only_a_sealed_file_is_mapped() {
    let (_, file) = ShmSendBuffers::new(2).unwrap();
    assert!(ftruncate(&file, 0).is_err());
    let other = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
    assert!(ShmSendBuffers::map(other.as_fd()).is_err());
}

#[test]
fn a_program_maps_a_chunk_of_the_file_for_each_connection_beyond_the_last() {
    let (stack, file) = ShmSendBuffers::new(1).unwrap();
    let program = ShmSendBuffers::map(file.as_fd()).unwrap();
    let per_chunk = (CHUNK / SLOT) as u64;
    let (first, last, next) = (id(0, 1), id(per_chunk - 1, 1), id(per_chunk, 1));
    for conn in [first, last, next] {
        stack.begin(conn);
        stack.open(conn);
        assert!(!program.is_reached(conn) && !program.put(conn, once(&b"a"[..]), || true));
    }
    program.reach(file.as_fd(), last).unwrap();
    program.reach(file.as_fd(), last).unwrap();
    let put = [first, last, next].map(|conn| program.put(conn, once(&b"a"[..]), || true));
    assert_eq!(put, [true, true, false]);
    assert_eq!([first, last, next].map(|conn| taken(&stack, conn).len()), [1, 1, 0]);
    assert!(program.is_reached(id(OUTBOXES as u64, 1)), "nothing to map");
}

/// Mappings of the file in `/proc/self/smaps`: size in KiB, and flags.
fn mappings(of: &str) -> Vec<(u64, String)> {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut all, mut is_one) = (Vec::new(), false);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Size:") if is_one => all.push((words.next().unwrap().parse().unwrap(), String::new())),
            Some("VmFlags:") if is_one => {
                all.last_mut().unwrap().1 = words.map(|word| format!(" {word}")).collect()
            }
            Some(word) if !word.ends_with(':') => is_one = line.contains(of),
            _ => {}
        }
    }
    all
}

#[test]
fn what_is_shared_is_in_no_core_dump_and_not_locked() {
    let (_stack, _program) = both(1);
    let _board = crate::label_table::LabelTable::new().unwrap();
    let _labels = LabelReader::map(_board.file()).unwrap();
    for name in ["greenwave-outboxes", "greenwave-labels"] {
        let all = mappings(name);
        assert!(all.len() >= 2, "{name}: {all:?}");
        assert!(
            all.iter().all(|(_, flags)| flags.contains(" dd") && !flags.contains(" lo")),
            "{name}: {all:?}"
        );
    }
}

/// Runs `check` in a child process with its own limits; returns its status.
fn in_a_child(check: impl FnOnce()) -> i32 {
    // SAFETY: the child allocates, which glibc allows after a fork of a multi-threaded process.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        // SAFETY: it ends the child.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let mut status = 0;
    // SAFETY: the child is not waited for yet.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

//~ programs: a process killed while writing leaves the send buffer usable by the next connection
#[test]
fn a_lock_of_a_process_that_was_killed_is_broken_for_the_next_connection() {
    let (stack, program) = both(1);
    let conn = |generation| id(0, generation);
    stack.begin(conn(1));
    stack.open(conn(1));
    let killed = in_a_child(|| {
        program.put(conn(1), once(&b"lost"[..]), || {
            // SAFETY: it ends the child, which holds the lock.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            true
        });
    });
    assert_eq!(killed & 0x7f, libc::SIGKILL);
    assert!(!program.put(conn(1), once(&b"a"[..]), || true), "the child holds the lock");
    stack.end(conn(1));
    stack.begin(conn(2));
    stack.open(conn(2));
    assert!(program.put(conn(2), once(&b"a"[..]), || true));
    assert_eq!(taken(&stack, conn(2)), b"a");
}

#[test]
fn a_connection_that_begins_during_a_copy_for_its_predecessor_uses_the_pair() {
    let (stack, program) = both(1);
    let conn = |generation| id(0, generation);
    stack.begin(conn(1));
    stack.open(conn(1));
    let late = program.put(conn(1), once(&b"late"[..]), || {
        stack.end(conn(1));
        stack.begin(conn(2));
        stack.open(conn(2));
        assert!(!program.put(conn(2), once(&b"a"[..]), || true));
        true
    });
    assert!(!late && !program.put(conn(2), once(&b"a"[..]), || true), "nor afterwards");
    assert_eq!(taken(&stack, conn(2)), b"");
    stack.end(conn(2));
    stack.begin(conn(3));
    stack.open(conn(3));
    assert!(program.put(conn(3), once(&b"a"[..]), || true), "the lock is free");
}

//~ programs: a process killed while writing leaves the send buffer usable by the next connection
#[test]
fn memory_that_programs_touch_and_say_nothing_of_is_taken_away() {
    let (stack, file) = ShmSendBuffers::new(1).unwrap();
    let program = program(&file);
    let touched = 2 * (HELD_MAX + OUTBOXES * PAGE) / SLOT;
    for nth in 0..touched {
        let outbox = program.nth(nth).unwrap();
        for page in (0..SLOT - DATA).step_by(PAGE) {
            outbox.write(page, b"x");
        }
    }
    let (Side::Stack(kept), conn) = (&stack.side, id(0, 1)) else { panic!("it is the stack's") };
    stack.begin(conn);
    stack.open(conn);
    assert!(kept.is_crowded());
    for _ in 0..=LOOK_EVERY as usize + OUTBOXES / SWEPT {
        stack.relieve(conn);
    }
    assert!(!kept.is_crowded());
    assert!(program.put(conn, once(&b"a"[..]), || true));
    assert_eq!(taken(&stack, conn), b"a");
}

//~ programs: programs with little address space, locked memory or few descriptors are served
/// memcached -k locks all its mappings.
#[test]
fn a_process_that_locks_its_memory_or_may_have_little_has_of_it_what_it_touches() {
    let (stack, file) = ShmSendBuffers::new(1).unwrap();
    let label_table = crate::label_table::LabelTable::new().unwrap();
    let (conn, blocks) = (id(0, 1), || fstat(&file).unwrap().st_blocks);
    stack.begin(conn);
    stack.open(conn);
    let before = blocks();
    let locked = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let status = in_a_child(|| {
        // SAFETY: no pointers. Without the privilege it locks nothing, and the rest still holds.
        unsafe { libc::mlockall(libc::MCL_FUTURE) };
        let locks = locked();
        let program = ShmSendBuffers::map(file.as_fd()).unwrap();
        program.reach(file.as_fd(), conn).unwrap();
        let _labels = LabelReader::map(label_table.file()).unwrap();
        assert!(locked() < locks + 512, "{} KiB, and {locks} before", locked());
        assert!(blocks() - before <= 4 * (PAGE as i64 / 512), "untouched pages are populated");
        assert!(program.put(conn, once(&b"a"[..]), || true));
        let limit = libc::rlimit { rlim_cur: 64 << 20, rlim_max: 64 << 20 };
        // SAFETY: the limit lives through the call.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
        let reached = (1..64).filter(|nth| program.reach(file.as_fd(), id(16 * nth, 1)).is_ok()).count();
        assert!(reached <= 8, "{reached} chunks of 64 MiB are mapped");
    });
    assert_eq!(status, 0);
    assert_eq!(taken(&stack, conn), b"a");
}
