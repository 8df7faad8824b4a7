//! Tasks behind the common pipeline: guard, and receiving's time share.

//~ tasks: tasks run behind admission control and keep their share of time in a flood

use guard::{Limit, Policy, Signals};
use net::device::memory;
use queueing::{Span, Time};
use runtime::shard::{Refusal, ShardGuard, Shed};
use runtime::task::{TaskShard, TaskStep, TcpListener, TcpStream, sleep, yield_now};
use tokio::io::AsyncReadExt;

use crate::world::{PORT, World, address, strict};

/// A policy with a constant limit.
struct Says(Limit);

impl Policy for Says {
    fn tick(&mut self, _now: Time, signals: &Signals) -> Limit {
        assert!(signals.served <= signals.admitted + 1, "{signals:?}");
        self.0
    }
}

#[test]
fn a_guard_sheds_connections_before_tasks_and_open_ones_continue() {
    let mut config = strict(1);
    let policy = Box::new(Says(Limit::Concurrency { max: 1 }));
    config.guard =
        Some(ShardGuard { policy, period: Span::from_micros(1), refusal: Refusal::Reset, watches: false });
    let mut world = World::with(config, strict(2));
    let received = world.server.spawn(async {
        let mut listener = TcpListener::bind(PORT).expect("a free port");
        let (mut stream, _) = listener.accept().await;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("all of it");
        text
    });
    world.settle();
    let asked = world.client.spawn(async {
        let mut first = TcpStream::connect(address()).await.expect("there is room for one");
        // The guard precedes TCP: it must learn of the first one.
        sleep(Span::from_millis(1)).await;
        let second = TcpStream::connect(address()).await.map(|_| ()).map_err(|e| e.kind());
        tokio::io::AsyncWriteExt::write_all(&mut first, b"hello").await.expect("it is in");
        second
    });
    assert_eq!(world.finish(&asked), Err(std::io::ErrorKind::ConnectionRefused));
    assert_eq!(world.finish(&received), "hello");
    let of = world.server.counters().guard[0];
    assert_eq!((of.seen, of.by_presence, of.shed()), (2, 1, 1));
    let all = world.server.counters().guard.iter().map(Shed::shed).sum::<u64>();
    assert_eq!(all, 1);
}

#[test]
fn under_a_flood_tasks_get_the_cpu_share_that_receive_processing_leaves() {
    const COST: Span = Span::from_micros(2);
    let polls = |percent: u8| {
        let mut config = strict(1);
        config.budget.receive_percent = percent;
        let (mut device, mut far) = memory::pair(512, 1514);
        let mut shard = TaskShard::new(config);
        shard.spawn(async {
            loop {
                yield_now().await;
            }
        });
        let (mut now, mut polled, mut all) = (Time::from_nanos(1), Span::ZERO, Span::ZERO);
        for _ in 0..40_000 {
            while net::Device::transmit(&mut far, now, 60, &mut |frame| frame.fill(0)).is_ok() {}
            let step = shard.step(now, &mut device);
            now += COST;
            all += COST;
            if matches!(step, TaskStep::Poll { .. }) {
                polled += COST;
            }
        }
        polled.as_secs_f64() / all.as_secs_f64()
    };
    let (bound, free) = (polls(50), polls(100));
    assert!(bound > 0.45, "tasks got {bound} of the time");
    assert!(free < 0.2, "and {free} where receiving has no bound");
}
