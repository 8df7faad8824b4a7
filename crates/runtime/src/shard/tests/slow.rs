//! Slow-request log.

//~ views: the stages of a request follow each other without a gap

use super::*;
use crate::app::RequestAttributes;

const ALL: SlowRequestLimits = SlowRequestLimits { over: Span::ZERO, most: 100, levels: PrioritySet::ALL };

fn kept(world: &mut World) -> Vec<Slow> {
    let mut seen = ShardSnapshot::default();
    seen.stats.slow.set_limits(ALL);
    world.shard.show(&mut seen);
    seen.stats.slow.take()
}

#[test]
fn stage_durations_sum_to_the_time_from_receive_timestamp_to_completion() {
    let mut world = world(1, |config| config.slow = ALL);
    let (one, two) = (world.connect(), world.connect());
    world.send(one, "7\n");
    let sent = world.clock.now();
    world.send(two, "4\n");
    world.serve_one();
    // Longer on the way back than in the application.
    let mut job = world.jobs.remove(0);
    job.serve(&Lines, &world.clock);
    world.clock.compute(Span::from_micros(3));
    let end = world.clock.now();
    world.shard.complete(end, job);
    let kept = kept(&mut world);
    assert_eq!(kept.len(), 2);
    let (slow, quick) = (&kept[0], &kept[1]);
    assert!(slow.total() > quick.total(), "the slowest is the first");
    let waited = if slow.label.priority.level() == 4 { slow } else { quick };
    assert_eq!((waited.request, waited.response, waited.end), (2, 2, RequestEnd::Answered));
    assert!(waited.begun >= sent);
    assert_eq!(waited.begun + waited.total(), end);
    assert!(waited.stages[2] >= Span::from_micros(100), "it waited for the first: {waited:?}");
    assert!(waited.stages[3] >= Span::from_micros(4), "the way back is in it: {waited:?}");
    assert_eq!(waited.app, Span::from_micros(1));
    assert_eq!((waited.stages[4], &waited.attributes), (Span::ZERO, &RequestAttributes::default()));
}

#[test]
fn the_transmit_stage_lasts_until_tcp_has_the_whole_response() {
    let mut world = world(1, |config| {
        config.slow = ALL;
        config.stack.send_buffer = 8 * 1024;
    });
    let id = world.connect();
    world.send(id, "B\n");
    let mut job = world.jobs.remove(0);
    job.serve(&Lines, &world.clock);
    let served = world.clock.now();
    world.shard.complete(served, job);
    assert_eq!(world.shard.stats().slow.clone().take(), [], "it is not sent yet");
    world.settle();
    let kept = kept(&mut world);
    assert_eq!((kept.len(), kept[0].response, kept[0].end), (1, 100_002, RequestEnd::Answered));
    assert!(kept[0].stages[4] > Span::ZERO);
    assert!(kept[0].begun + kept[0].total() > served);
}

#[test]
fn an_unanswered_request_is_logged_with_its_reason() {
    let mut world = world(1, |config| {
        config.slow = ALL;
        config.stack.send_buffer = 8 * 1024;
    });
    let ends = |world: &mut World| kept(world).iter().map(|slow| slow.end).collect::<Vec<_>>();
    let id = world.connect();
    world.send(id, "late\n");
    world.client.abort(world.clock.now(), id);
    world.settle();
    world.serve_one();
    assert_eq!(ends(&mut world), [RequestEnd::Gone], "the connection ended before the answer");
    let id = world.connect();
    world.send(id, "B\n");
    let mut job = world.jobs.remove(0);
    job.serve(&Lines, &world.clock);
    world.shard.complete(world.clock.now(), job);
    world.client.abort(world.clock.now(), id);
    world.settle();
    assert_eq!(ends(&mut world), [RequestEnd::Gone], "the connection ended before all was sent");
    let id = world.connect();
    world.send(id, "P\n");
    world.serve_one();
    assert_eq!(ends(&mut world), [RequestEnd::Failed]);
}

#[test]
fn nothing_is_logged_without_a_request_and_each_snapshot_starts_empty() {
    let mut unasked = world(1, |_| {});
    let id = unasked.connect();
    unasked.send(id, "1\n");
    unasked.serve_all();
    assert_eq!(unasked.shard.stats().slow.clone().take(), []);
    let mut world = world(1, |config| {
        config.slow = SlowRequestLimits { over: Span::from_micros(50), most: 2, levels: PrioritySet::ALL }
    });
    let id = world.connect();
    for text in ["1\n", "7\n", "7\n", "7\n", "1\n"] {
        world.send(id, text);
        world.serve_all();
    }
    let mut seen = ShardSnapshot::default();
    seen.stats.slow.set_limits(ALL);
    world.shard.show(&mut seen);
    assert_eq!((seen.stats.slow.take().len(), seen.stats.slow.left_out()), (2, 1));
    world.send(id, "1\n");
    world.serve_all();
    assert_eq!(kept(&mut world), [], "limits stay the shard's");
}
