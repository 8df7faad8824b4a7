//! A read returns the written contents or an error.

//~ workloads: blocks read are those last written, encrypted; a changed block is detected

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use net::device::memory::{MemoryDevice, pair};
use netlab::TempDir;
use proptest::prelude::*;
use queueing::{Priority, Rng, Span, Time};
use runtime::task::{Config, JoinHandle, TaskShard, TaskStep};

use super::*;

mod asleep;

const TEXT: &[u8] = include_bytes!("../../../LICENSE");

/// A store, and the shard whose tasks use it.
struct World {
    store: Arc<BlockStore>,
    shard: TaskShard<MemoryDevice>,
    device: MemoryDevice,
    now: Time,
    folder: TempDir,
}

impl World {
    fn new(blocks: u32, io: Io) -> Self {
        let (files, how) = disk(Some(io), |_| ()).expect("it can be had");
        let folder = TempDir::new("storage").unwrap();
        let tcp = net::stack::Config::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [1; 16]);
        let shard = TaskShard::new(Config { disk: Some(files.disk), ..Config::shared(tcp) });
        let preload = Preload { blocks, text: TEXT, seed: 1 };
        let path = folder.path().join("blocks");
        let store = BlockStore::create(&shard.handle(), how, &path, false, preload).unwrap();
        Self { store: Arc::new(store), shard, device: pair(8, 1514).0, now: Time::ZERO, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("blocks")
    }

    /// Spawns the task of `ask`.
    fn begin<T, F>(&self, ask: impl FnOnce(Arc<BlockStore>) -> F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.shard.spawn(ask(self.store.clone()))
    }

    /// The result of a task, within twenty seconds.
    fn end<T>(&mut self, task: &JoinHandle<T>) -> T {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while std::time::Instant::now() < end {
            self.now += Span::from_micros(1);
            while self.shard.step(self.now, &mut self.device) != TaskStep::Idle {}
            if let Some(result) = task.try_take() {
                return result.expect("it ends");
            }
            std::thread::yield_now();
        }
        panic!("it takes more than 20 s");
    }

    /// The store's answer.
    fn serve(&mut self, request: RequestHeader, body: Vec<u8>) -> Result<Vec<u8>, Refused> {
        let task = self.begin(|store| async move {
            let mut answer = Vec::new();
            store.serve(&request, &body, &mut answer).await.map(|()| answer)
        });
        self.end(&task)
    }

    fn read(&mut self, first: u32, count: u32) -> Result<Vec<u8>, String> {
        let task = self.begin(move |store| async move {
            let mut out = Vec::new();
            store.read(first, count, &mut out).await.map(|()| out).map_err(|e| e.to_string())
        });
        self.end(&task)
    }
}

fn request(id: u64, kind: u8, body: usize) -> RequestHeader {
    let length = (REQUEST_LEN_MIN + body) as u32;
    RequestHeader { id, kind, priority: Priority::LOWEST, length, service: Span::ZERO }
}

#[test]
fn a_new_store_holds_text() {
    let mut world = World::new(64, Io::Plain);
    let out = world.serve(request(3, StorageOp::Read(16).code(), 0), Vec::new()).unwrap();
    assert_eq!(out.len(), 16 * BLOCK);
    assert!(out.is_ascii() && out.windows(8).any(|bytes| bytes == b" License"));
    let check = world.store.check();
    assert_eq!(check.says, "64 blocks are what was written (system calls, through the page cache)");
    assert!(check.holds);
}

#[test]
fn a_changed_or_moved_block_is_detected() {
    let mut world = World::new(16, Io::Plain);
    let file = File::options().read(true).write(true).open(world.path()).unwrap();
    let stride = world.store.stride();
    let mut slot = vec![0; stride];
    file.read_exact_at(&mut slot, 0).unwrap();
    for (at, what) in [(0, "length"), (5, "nonce"), (14, "text")] {
        let mut other = slot.clone();
        other[at] ^= 1;
        file.write_all_at(&other, 0).unwrap();
        assert_eq!(world.store.wrong(), [0], "{what}");
    }
    file.write_all_at(&slot, stride as u64).unwrap();
    file.write_all_at(&slot, 0).unwrap();
    assert_eq!(world.store.wrong(), [1], "a good block in another's place");
    assert_eq!(world.read(0, 2).unwrap_err(), "block 1 is not what was written");
    assert!(!world.store.check().holds);
}

#[test]
fn an_invalid_request_gets_a_one_line_error() {
    let mut world = World::new(16, Io::Plain);
    for (kind, body) in [(0, 0), (17, 0), (0x80, 0), (0x90, 0), (0x81, BLOCK - 1), (0x82, BLOCK)] {
        let refused = world.serve(request(1, kind, body), vec![0; body]).unwrap_err();
        assert!(!refused.0.is_empty() && !refused.0.contains('\n'), "{kind}: {refused:?}");
    }
}

#[test]
fn requests_reach_every_block_and_none_beyond() {
    let mut seen = [0; 16];
    for id in 0..10_000 {
        seen[first(id, 1, 16) as usize] += 1;
        assert_eq!(first(id, 16, 16), 0);
        assert!(first(id, 15, 16) <= 1);
    }
    assert!(seen.iter().all(|count| (400..900).contains(count)), "{seen:?}");
}

/// Concurrent writes by tasks, of blocks drawn from ids and seeds. Each reads its write unless
/// another task wrote there, and at the end every block is one task's, complete.
fn tasks_write_and_read_at_once(world: &mut World, seed: u64) {
    let tasks: Vec<_> = (0..12u64)
        .map(|n| {
            world.begin(|store| async move {
                let mut rng = Rng::seeded(seed.wrapping_add(n));
                for _ in 0..4 {
                    let blocks = 1 + rng.below(15) as u8;
                    let mut body = vec![n as u8; usize::from(blocks) * BLOCK];
                    if rng.below(2) == 0 {
                        body[..BLOCK / 2].fill_with(|| rng.next_u64() as u8);
                    }
                    let id = rng.next_u64();
                    let kind = StorageOp::Write(blocks).code();
                    store.serve(&request(id, kind, body.len()), &body, &mut Vec::new()).await?;
                    // Never a mixture of two writes.
                    let mut out = Vec::new();
                    store.serve(&request(id, StorageOp::Read(blocks).code(), 0), &[], &mut out).await?;
                    assert_eq!(out.len(), body.len());
                    for block in out.chunks(BLOCK) {
                        assert!(block[BLOCK / 2..].iter().all(|byte| *byte == block[BLOCK - 1]));
                    }
                }
                Ok::<_, Refused>(())
            })
        })
        .collect();
    for task in &tasks {
        world.end(task).expect("it is served");
    }
    assert_eq!(world.store.wrong(), [0; 0]);
}

#[test]
fn many_tasks_write_and_read_the_same_blocks_at_once() {
    tasks_write_and_read_at_once(&mut World::new(40, Io::Plain), 1);
    if let Err(e) = disk(Some(Io::Ring), |_| ()) {
        let why = format!("skipped: many_tasks_write_and_read_the_same_blocks_at_once by io_uring: {e}\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), why.as_bytes());
        return;
    }
    tasks_write_and_read_at_once(&mut World::new(40, Io::Ring), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn blocks_are_what_was_last_written(
        writes in prop::collection::vec((any::<u64>(), 1..BLOCKS_MAX, any::<bool>(), any::<u64>()), 1..12)
    ) {
        let mut world = World::new(24, Io::Plain);
        let mut model = world.read(0, 16).unwrap();
        model.extend(world.read(16, 8).unwrap());
        for (id, blocks, is_noise, seed) in writes {
            let mut rng = Rng::seeded(seed);
            let mut body = vec![b'x'; usize::from(blocks) * BLOCK];
            if is_noise {
                body.fill_with(|| rng.next_u64() as u8);
            }
            let at = first(id, blocks, 24) as usize * BLOCK;
            model[at..at + body.len()].copy_from_slice(&body);
            world.serve(request(id, StorageOp::Write(blocks).code(), body.len()), body).unwrap();
        }
        let mut found = world.read(0, 16).unwrap();
        found.extend(world.read(16, 8).unwrap());
        prop_assert!(found == model);
        prop_assert!(world.store.check().holds);
    }

    #[test]
    fn any_kind_is_a_request_or_refused(kind: u8, id: u64) {
        if let Some(known) = StorageOp::of(kind) {
            prop_assert_eq!(known.code(), kind);
            let (StorageOp::Read(blocks) | StorageOp::Write(blocks)) = known;
            prop_assert!(u32::from(blocks) + first(id, blocks, 16) <= 16);
        }
    }
}
