//! Thresholds that change at run time.

use super::*;

#[test]
fn a_task_asks_for_a_core_by_the_threshold_that_it_has_now() {
    for name in ["caladan", "shenango"] {
        let (lc, be) = (TaskSpec::critical(1), TaskSpec::best_effort());
        let patient = TaskSpec { delay_max: Span::from_micros(50), ..lc.clone() };
        let (mut board, mut policy) = setup(name, (2, 1), &[lc.clone(), be]);
        board.set(at(0), CoreId(0), CoreState::Granted(TaskId(0)));
        board.set(at(0), CoreId(1), CoreState::Granted(TaskId(1)));
        board.set_thresholds(TaskId(0), &TaskSpec { guaranteed: 2, ..patient.clone() });
        assert_eq!(board.spec(TaskId(0)), &patient, "the guarantee stays");
        let seen = signals(&board, &[(1, 20), (9, 0)]);
        policy.round(at(10), &seen, &mut board);
        assert_eq!(shown(&board), "ab", "{name}: 20 µs are below 50 µs");
        board.set_thresholds(TaskId(0), &lc);
        let seen = signals(&board, &[(1, 20), (9, 0)]);
        policy.round(at(20), &seen, &mut board);
        assert_eq!(shown(&board), "aa", "{name}: 20 µs are above 10 µs");
    }
}
