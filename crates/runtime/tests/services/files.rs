//! Files that tasks read and write, on an in-memory disk whose requests the test completes.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use queueing::{Label, Rng, Span, Time};
use runtime::task::{
    Config, File, FileBuffer, JoinHandle, Oldest, TaskShard, TaskStep, label, sleep, spawn, timeout,
    yield_now,
};
use storage::FileOptions;
use storage::memory::MemoryDisk;

use crate::world::{World, level, strict};

const LEN: usize = 64;
const WRITE: FileOptions = FileOptions { write: true, create: true, direct: false };

/// A world whose server has a disk.
fn world(depth: usize, buffers: usize) -> (World, MemoryDisk) {
    let disk = MemoryDisk::new(depth, buffers, LEN);
    let config = Config { disk: Some(Box::new(disk.clone())), ..strict(1) };
    (World::with(config, strict(2)), disk)
}

fn urgent(n: u8) -> Label {
    Label::new(level(n))
}

#[test]
fn a_task_reads_what_is_in_a_file() {
    let (mut world, disk) = world(4, 4);
    disk.put("greeting", b"good morning");
    let task = world.server.spawn(async {
        let file = File::open("greeting", &FileOptions::default())?;
        let bytes = file.read_at(5, 32).await?;
        std::io::Result::Ok(bytes.to_vec())
    });
    world.settle();
    assert_eq!((task.try_take().is_none(), disk.in_flight()), (true, 1));
    assert!(disk.finish_one());
    assert_eq!(world.finish(&task).unwrap(), b"morning");
}

#[test]
fn a_tasks_written_bytes_are_in_the_file() {
    let (mut world, disk) = world(4, 1);
    disk.complete_immediately();
    let task = world.server.spawn(async {
        let file = File::open("new", &WRITE)?;
        for (at, word) in [(0, "one "), (4, "two")] {
            let mut buffer = FileBuffer::new(word.len()).await?;
            buffer.copy_from_slice(word.as_bytes());
            file.write_at(at, buffer).await?;
        }
        file.sync().await
    });
    world.finish(&task).unwrap();
    assert_eq!(disk.get("new"), b"one two");
}

/// Runs one reading task per level; returns the order in which their reads ended.
fn readers(world: &mut World, levels: &[u8]) -> Arc<Mutex<Vec<u8>>> {
    let order: Arc<Mutex<Vec<u8>>> = Arc::default();
    for &n in levels {
        let order = order.clone();
        world.server.handle().spawn_with(urgent(n), async move {
            let file = File::open("file", &FileOptions::default()).expect("it is there");
            let read = file.read_at(0, 1).await.expect("no error");
            assert_eq!((read.len(), label().priority.level()), (1, n));
            order.lock().expect("whole").push(n);
        });
    }
    order
}

#[test]
fn completions_wake_tasks_in_label_order() {
    let (mut world, disk) = world(8, 8);
    disk.put("file", b"x");
    let order = readers(&mut world, &[6, 2, 7, 0]);
    world.settle();
    assert_eq!(disk.in_flight(), 4);
    // The disk completes the least urgent first.
    while disk.finish_nth(disk.in_flight().saturating_sub(1)) {}
    assert_eq!(world.serve(), [0, 2, 6, 7]);
    assert_eq!(*order.lock().unwrap(), [0, 2, 6, 7]);
}

#[test]
fn a_full_disk_makes_tasks_wait_and_the_most_urgent_goes_next() {
    let (mut world, disk) = world(1, 8);
    disk.put("file", b"x");
    let order = readers(&mut world, &[7]);
    world.settle();
    let later = readers(&mut world, &[5, 1, 3]);
    world.settle();
    assert_eq!(disk.in_flight(), 1, "its depth is one");
    while disk.finish_one() {
        world.settle();
    }
    assert_eq!((&order.lock().unwrap()[..], &later.lock().unwrap()[..]), (&[7][..], &[1, 3, 5][..]));
}

#[test]
fn without_a_free_buffer_a_task_waits_for_one() {
    let (mut world, disk) = world(8, 1);
    disk.complete_immediately();
    disk.put("file", b"x");
    let (keep, kept) = tokio::sync::oneshot::channel::<()>();
    let holds = world.server.spawn(async {
        let _held = FileBuffer::new(LEN).await.expect("the only one");
        kept.await
    });
    world.settle();
    let order = readers(&mut world, &[3]);
    world.settle();
    assert_eq!(*order.lock().unwrap(), []);
    keep.send(()).expect("it waits");
    world.finish(&holds).unwrap();
    world.settle();
    assert_eq!(*order.lock().unwrap(), [3]);
}

//~ tasks: a cancelled file request keeps its buffer until the disk is done
#[test]
fn a_dropped_read_returns_its_buffer_once_the_disk_has_finished() {
    let (mut world, disk) = world(8, 1);
    disk.put("file", b"x");
    let task = world.server.spawn(async {
        let file = File::open("file", &FileOptions::default()).expect("it is there");
        timeout(Span::from_millis(1), file.read_at(0, 1)).await.is_err()
    });
    assert!(world.finish(&task), "it takes too long");
    let order = readers(&mut world, &[3]);
    world.settle();
    assert_eq!((disk.in_flight(), order.lock().unwrap().len()), (1, 0), "the buffer is the first one's");
    disk.finish_one();
    world.settle();
    assert_eq!(disk.in_flight(), 1, "now it is the second one's");
    disk.finish_one();
    world.settle();
    assert_eq!(*order.lock().unwrap(), [3]);
}

//~ tasks: a cancelled file request keeps its buffer until the disk is done
#[test]
fn an_ending_shard_waits_for_its_unfinished_io() {
    let (mut world, disk) = world(2, 2);
    disk.put("file", b"old");
    let task = world.server.spawn(async {
        let file = File::open("file", &WRITE).expect("it is there");
        let mut buffer = FileBuffer::new(3).await.expect("a buffer");
        buffer.copy_from_slice(b"new");
        file.write_at(0, buffer).await
    });
    world.settle();
    assert_eq!((disk.in_flight(), disk.get("file")), (1, b"old".to_vec()));
    drop(world);
    assert!(matches!(task.try_take(), Some(Err(runtime::task::JoinError::Ended))));
    assert_eq!((disk.in_flight(), disk.get("file")), (0, b"new".to_vec()));
}

//~ tasks: the age of a finished storage request is published until its task can run
#[test]
fn the_age_of_a_completion_is_reported_until_its_task_runs() {
    let disk = MemoryDisk::new(64, 64, LEN);
    disk.put("file", b"x");
    let (mut device, _far) = net::device::memory::pair(8, 1514);
    let mut shard = TaskShard::new(Config { disk: Some(Box::new(disk.clone())), ..strict(1) });
    let at = |us: u64| Time::from_nanos(us * 1000);
    for _ in 0..20 {
        drop(shard.spawn(async {
            File::open("file", &FileOptions::default()).expect("it is there").read_at(0, 1).await.map(drop)
        }));
    }
    while shard.step(at(1), &mut device) != TaskStep::Idle {}
    assert_eq!((disk.in_flight(), shard.oldest()), (20, Oldest::default()));
    while disk.finish_one() {}
    // A round wakes some of them before the first one is polled.
    let mut completed = 0;
    while shard.step(at(5), &mut device) == TaskStep::Complete {
        completed += 1;
        assert_eq!(shard.oldest().storage, Some(at(5)));
    }
    assert_eq!(completed, 8);
    while shard.step(at(9), &mut device) != TaskStep::Idle {}
    assert_eq!((shard.oldest(), shard.tasks()), (Oldest::default(), 0));
}

#[test]
fn invalid_requests_get_a_one_line_error() {
    let (mut world, disk) = world(2, 2);
    disk.put("file", &[1; 64]);
    let task = world.server.spawn(async {
        let kind = |e: std::io::Error| {
            let text = e.to_string();
            assert!(!text.is_empty() && !text.contains('\n'), "{text}");
            e.kind()
        };
        let direct = FileOptions { direct: true, ..FileOptions::default() };
        let file = File::open("file", &FileOptions::default()).expect("it is there");
        [
            kind(File::open("no such", &FileOptions::default()).err().expect("it is not there")),
            kind(File::open("file", &direct).err().expect("there is a cache only")),
            kind(file.read_at(0, LEN + 1).await.err().expect("too long")),
            kind(FileBuffer::new(LEN + 1).await.err().expect("too long")),
        ]
    });
    use ErrorKind::{InvalidInput, NotFound, Unsupported};
    assert_eq!(world.finish(&task), [NotFound, Unsupported, InvalidInput, InvalidInput]);
    disk.allow_direct(16);
    let task = world.server.spawn(async {
        let direct = FileOptions { direct: true, ..FileOptions::default() };
        let file = File::open("file", &direct).expect("it is there");
        let refused = [file.read_at(8, 16).await.err(), file.read_at(16, 8).await.err()];
        (file.align(), refused.map(|e| e.map(|e| e.to_string())))
    });
    let says = |len, at| {
        Some(format!("{len} bytes at {at} are not multiples of 16, which direct I/O of this file requires"))
    };
    assert_eq!(world.finish(&task), (16, [says(16, 8), says(8, 16)]));
    let lone =
        world.client.spawn(async { File::open("file", &FileOptions::default()).err().map(|e| e.kind()) });
    assert_eq!(world.finish(&lone), Some(Unsupported), "the shard has no disk");
}

#[test]
fn a_disk_error_is_returned_to_the_task() {
    let (mut world, disk) = world(2, 1);
    disk.put("file", b"x");
    let task: JoinHandle<_> = world.server.spawn(async {
        let file = File::open("file", &FileOptions::default()).expect("it is there");
        let failed = file.read_at(0, 1).await.err().map(|e| e.kind());
        (failed, file.read_at(0, 1).await.map(|bytes| bytes[0]).ok())
    });
    world.settle();
    disk.fail_next(ErrorKind::TimedOut);
    disk.finish_one();
    disk.complete_immediately();
    assert_eq!(world.finish(&task), (Some(ErrorKind::TimedOut), Some(b'x')), "and the buffer was free again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    //~ tasks: a file read through io_uring returns what was written
    /// Tasks with disjoint parts of a file write and read there at random, some with urgent labels;
    /// the disk completes requests in any order.
    #[test]
    fn every_task_reads_what_it_wrote(seed: u64, depth in 1..5usize, buffers in 1..5usize) {
        const PART: u64 = 128;
        let (mut world, disk) = world(depth, buffers);
        disk.put("file", &[]);
        let mut rng = Rng::seeded(seed);
        let tasks: Vec<_> = (0..5u64).map(|n| {
            let mut rng = Rng::seeded(rng.next_u64());
            world.server.handle().spawn_with(urgent(n as u8), async move {
                let file = File::open("file", &WRITE).expect("it is there");
                let mut model = BTreeMap::new();
                for _ in 0..20 {
                    let at = rng.below(PART - LEN as u64);
                    let len = 1 + rng.below(LEN as u64) as usize;
                    if rng.below(2) == 0 {
                        let mut buffer = FileBuffer::new(len).await.expect("a buffer");
                        buffer.fill_with(|| rng.next_u64() as u8);
                        model.extend((at..).zip(buffer.to_vec()));
                        file.write_at(n * PART + at, buffer).await.expect("it is written");
                    } else if rng.below(4) == 0 {
                        let read = spawn(async { yield_now().await });
                        let hurry = timeout(Span::from_micros(rng.below(3)), file.read_at(n * PART + at, len));
                        let _ = hurry.await;
                        read.await.expect("it ends");
                    } else {
                        let read = file.read_at(n * PART + at, len).await.expect("it is read");
                        for (at, byte) in (at..).zip(read.iter()) {
                            // Bytes that were never written are not checked.
                            assert_eq!(model.get(&at).unwrap_or(byte), byte, "at {at} of part {n}");
                        }
                    }
                    if rng.below(4) == 0 {
                        sleep(Span::from_micros(rng.below(5))).await;
                    }
                }
            })
        }).collect();
        let mut left = tasks.len();
        for _ in 0..100_000 {
            world.now += Span::from_micros(1);
            world.serve();
            disk.finish_nth(rng.below(disk.in_flight().max(1) as u64) as usize);
            left -= tasks.iter().filter_map(JoinHandle::try_take).map(|end| end.expect("it agrees")).count();
            if left == 0 {
                break;
            }
        }
        prop_assert_eq!(left, 0, "a task waits for ever");
    }
}
