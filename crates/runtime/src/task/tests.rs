//! State word of a task, with one caller at a time; `tests/task_state.rs` has several.

use super::state::{State, WakeAction};

#[test]
fn a_queued_task_is_queued_again_only_at_a_more_urgent_level() {
    let state = State::queued(5);
    assert_eq!(state.wake(5), WakeAction::Nothing);
    assert_eq!(state.wake(2), WakeAction::Queue);
    assert_eq!(state.wake(3), WakeAction::Nothing);
    assert_eq!(state.queued_at(), Some(2));
}

#[test]
fn a_wake_up_during_a_poll_queues_the_task_afterwards_at_its_level() {
    let state = State::queued(5);
    assert!(state.begin());
    assert!(!state.begin(), "it is polled once at a time");
    assert_eq!((state.wake(6), state.wake(4)), (WakeAction::Nothing, WakeAction::Nothing));
    assert_eq!(state.pause(), WakeAction::Queue);
    assert_eq!(state.queued_at(), Some(4));
    assert!(state.begin());
    assert_eq!(state.pause(), WakeAction::Nothing);
    assert_eq!(state.wake(7), WakeAction::Queue);
}

#[test]
fn a_task_that_has_ended_is_never_queued() {
    let state = State::queued(0);
    assert!(state.begin());
    state.end();
    assert_eq!(state.wake(0), WakeAction::Nothing);
    assert!(!state.begin());
}
