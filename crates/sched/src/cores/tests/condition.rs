//! Lasting contention raises one alarm, which clears when it is over.

//~ sched: C8: interference that lasts raises a condition for log, metric and hook

use crate::cores::contention_alarm::{Change, Contention, ContentionAlarm};

use super::*;

/// Changes over rounds of 1 ms, each with LC's delay in µs and DRAM traffic in GB/s; the alarm delay is 4 ms.
fn changes(states: &[CoreState], rounds: impl IntoIterator<Item = (u64, f64)>) -> Vec<(u64, Change)> {
    let (mut assignment, _) = setup("caladan", (2, 2), &[TaskSpec::critical(1), TaskSpec::best_effort()]);
    for (core, &state) in assignment.topology().all().zip(states) {
        assignment.set(at(0), core, state);
    }
    let mut alarm = ContentionAlarm::new(Span::from_millis(4), &Settings::default(), &assignment);
    let (mut all, mut now) = (Vec::new(), Vec::new());
    for (ms, (delay_us, gb)) in rounds.into_iter().enumerate() {
        let mut signals = signals(&assignment, &[(1, delay_us), (9, 0)]);
        signals.bandwidth[0] = Some(gb * 1e9);
        alarm.round(at(ms as u64 * 1000), &signals, &assignment, &mut now);
        all.extend(now.drain(..).map(|change| (ms as u64, change)));
    }
    let raised = all.iter().filter(|(_, change)| matches!(change, Change::Raised(_))).count();
    assert_eq!(alarm.raised().count(), 2 * raised - all.len());
    all
}

const LC: CoreState = CoreState::Granted(TaskId(0));
const BE: CoreState = CoreState::Granted(TaskId(1));

#[test]
fn lc_that_waits_without_a_free_core_raises_one_alarm_that_clears_afterwards() {
    let rounds = [(20, 0.0); 7].into_iter().chain([(5, 0.0); 9]);
    let queue = Contention::Queue(TaskId(0));
    let expected = [(4, Change::Raised(queue)), (10, Change::Cleared(queue))];
    assert_eq!(changes(&[LC; 4], rounds), expected);
}

#[test]
fn contention_that_a_policy_can_resolve_is_not_raised() {
    for state in [BE, CoreState::Free] {
        assert_eq!(changes(&[LC, LC, LC, state], [(20, 0.0); 9]), []);
    }
    assert_eq!(changes(&[LC, LC, BE, BE], [(0, 30.0); 9]), []);
    // Cores that no policy takes cannot resolve it.
    assert_eq!(changes(&[CoreState::Shared; 4], [(20, 0.0); 9]).len(), 1);
}

#[test]
fn short_gaps_do_not_count_and_long_ones_restart_the_delay() {
    let broken = |len| [vec![(20, 0.0); 3], vec![(0, 0.0); len], vec![(20, 0.0); 3]].concat();
    assert_eq!(changes(&[LC; 4], broken(1)).len(), 1);
    assert_eq!(changes(&[LC; 4], broken(2)).len(), 0);
}

#[test]
fn dram_over_its_limit_without_be_is_raised() {
    let expected = [(4, Change::Raised(Contention::Bandwidth(0)))];
    assert_eq!(changes(&[LC, LC, CoreState::Free, CoreState::Free], [(0, 30.0); 6]), expected);
}
