//! Parallel map over tasks on several threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of cores that this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Applies `work` to each of `tasks` on up to `threads` threads; results in the tasks' order.
///
/// # Errors
/// That of the first failed task in order; after a failure no further task begins.
pub fn map<T: Sync, R: Send, E: Send>(
    tasks: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let done: Mutex<Vec<Option<Result<R, E>>>> = Mutex::new(tasks.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(tasks.len()) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(index) else { break };
                    let result = work(task);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // After a failure the tasks that never began are left out.
    done.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_keep_the_order_of_their_tasks() {
        let tasks: Vec<u32> = (0..100).collect();
        assert_eq!(map(&tasks, 4, |&n| Ok::<_, ()>(n * 2)), Ok(tasks.iter().map(|n| n * 2).collect()));
        assert_eq!(map(&[] as &[u32], 4, |&n| Ok::<_, ()>(n)), Ok(vec![]));
    }

    #[test]
    fn one_failure_fails_all() {
        assert_eq!(map(&[1, 2, 3], 2, |&n| if n == 2 { Err(n) } else { Ok(n) }), Err(2));
    }
}
