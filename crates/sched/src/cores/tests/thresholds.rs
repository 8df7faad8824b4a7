//! Thresholds that change at run time.

//~ operations: SIGHUP reloads targets of `guard attach` and thresholds of `sched`

use super::*;

#[test]
fn a_task_needs_a_core_by_its_current_threshold() {
    for name in ["caladan", "shenango"] {
        let (lc, be) = (TaskSpec::critical(1), TaskSpec::best_effort());
        let patient = TaskSpec { delay_max: Span::from_micros(50), ..lc.clone() };
        let (mut assignment, mut policy) = setup(name, (2, 1), &[lc.clone(), be]);
        assignment.set(at(0), CoreId(0), CoreState::Granted(TaskId(0)));
        assignment.set(at(0), CoreId(1), CoreState::Granted(TaskId(1)));
        assignment.set_thresholds(TaskId(0), &TaskSpec { guaranteed: 2, ..patient.clone() });
        assert_eq!(assignment.spec(TaskId(0)), &patient, "the guarantee stays");
        let input = signals(&assignment, &[(1, 20), (9, 0)]);
        policy.round(at(10), &input, &mut assignment);
        assert_eq!(shown(&assignment), "ab", "{name}: 20 µs are below 50 µs");
        assignment.set_thresholds(TaskId(0), &lc);
        let input = signals(&assignment, &[(1, 20), (9, 0)]);
        policy.round(at(20), &input, &mut assignment);
        assert_eq!(shown(&assignment), "aa", "{name}: 20 µs are above 10 µs");
    }
}
