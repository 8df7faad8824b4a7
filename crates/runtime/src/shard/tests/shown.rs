//! Snapshots of a running shard.

//~ views: an observed server loses no count and its thread never waits for the observer

use super::*;

#[test]
fn snapshots_and_final_stats_sum_to_all_waits() {
    let mut world = world(1, |_| {});
    let id = world.connect();
    let serve = |world: &mut World, text: &str| {
        world.send(id, text);
        world.serve_all();
    };
    serve(&mut world, "1\n");
    serve(&mut world, "1\n");
    let (mut seen, mut shown) = (ShardSnapshot::default(), Stats::default());
    world.shard.show(&mut seen);
    assert_eq!((seen.stats.counters.responses, seen.depths.connections), (2, 1));
    shown.merge_spans(&seen.stats);
    seen.clear();
    serve(&mut world, "1\n");
    world.shard.show(&mut seen);
    let service = |stats: &Stats| stats.stages.get(1, STAGES.len() - 1).count();
    assert_eq!((service(&seen.stats), seen.stats.counters.responses), (1, 3), "counters are cumulative");
    shown.merge_spans(&seen.stats);
    serve(&mut world, "1\n");
    let mut end = world.shard.into_stats();
    assert_eq!(service(&end), 1);
    end.merge_spans(&shown);
    assert_eq!((service(&end), end.counters.requests), (4, 4));
}

#[test]
fn a_snapshot_shows_the_current_queue_depths() {
    let mut world = world(1, |_| {});
    let (one, two) = (world.connect(), world.connect());
    world.send(one, "1\n");
    world.send(two, "1\n");
    let mut seen = ShardSnapshot::default();
    world.shard.show(&mut seen);
    assert_eq!(seen.depths, Depths { frames: 0, requests: 1, busy: 1, connections: 2 });
}

#[test]
fn budgets_are_parsed_only_while_observed_and_include_waiting_time() {
    let mut world = world(1, |_| {});
    let (one, two) = (world.connect(), world.connect());
    world.send(one, "D\n");
    world.serve_all();
    let mut seen = ShardSnapshot::default();
    world.shard.show(&mut seen);
    let left = |stats: &Stats| -> Vec<u64> { stats.left.iter().map(|(.., left)| left.count()).collect() };
    assert_eq!(left(&seen.stats).iter().sum::<u64>(), 0, "no snapshot was taken before");
    seen.clear();
    // The first is served for longer than the second's budget.
    world.send(one, "7\n");
    world.send(two, "D\n");
    world.serve_all();
    world.shard.show(&mut seen);
    let (.., late) = seen.stats.left.iter().find(|(.., left)| left.count() > 0).expect("one has a budget");
    assert_eq!((late.count(), late.max()), (1, Span::ZERO));
}
