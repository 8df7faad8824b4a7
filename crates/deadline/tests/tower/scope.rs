//! Task-local budget: queries, and inheritance by spawned tasks.

//~ deadlines: tower: handlers read their remaining budget and share it with spawned tasks

use deadline::tower::{budget, parts, priority, remaining, scope, spawn, spawn_parallel};
use deadline::{Budget, Remaining};
use queueing::Priority;

use crate::support::{ms, pass};

#[tokio::test(start_paused = true)]
async fn a_task_counts_down_and_hands_its_budget_to_the_tasks_it_spawns() {
    scope(Budget::new(ms(100)), async {
        pass(ms(40)).await;
        assert_eq!(remaining(), Some(Remaining::Left(ms(60))));
        assert_eq!(spawn(async { remaining() }).await.unwrap(), Some(Remaining::Left(ms(60))));
        assert_eq!(
            tokio::spawn(async { remaining() }).await.unwrap(),
            None,
            "not inherited without deadline::tower::spawn"
        );
        let part = budget().unwrap().split(ms(20));
        assert_eq!(scope(part, async { remaining() }).await, Some(Remaining::Left(ms(40))));
        pass(ms(61)).await;
        assert_eq!(remaining(), Some(Remaining::Missed(ms(1))));
    })
    .await;
    assert_eq!((remaining(), budget()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn the_less_is_left_the_more_parts_and_the_more_urgent() {
    let level = |n| Priority::new(n).unwrap();
    assert_eq!((parts(5), priority()), (1, Priority::LOWEST), "without a budget nothing is urgent");
    scope(Budget::new(ms(80)), async {
        for (after, n, urgency) in [(0, 1, 7), (40, 3, 4), (20, 4, 2), (19, 4, 0), (1, 5, 0), (9, 5, 0)] {
            pass(ms(after)).await;
            assert_eq!((parts(5), priority(), parts(1)), (n, level(urgency), 1), "{:?}", remaining());
        }
        let ran = spawn_parallel(5, |i, n| async move { (i, n, remaining().unwrap().is_missed()) });
        for (i, task) in ran.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), (i, 5, true));
        }
    })
    .await;
    assert_eq!(scope(Budget::new(ms(0)), async { (parts(3), priority()) }).await, (3, Priority::HIGHEST));
}
