package greenwave.deadline.thread;

import greenwave.deadline.Gate;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Thread pool of fixed size that serves {@link Call}s in deadline order.
 *
 * <p>All threads start at once, so that every call passes the queue and infeasible ones are dropped. Other tasks go
 * first, in order of arrival. Bounds: the queue's capacity for calls, and a maximum number of other tasks.
 */
public class DeadlinePool extends ThreadPoolExecutor {
    /**
     * A pool of {@code threads} (1 or more) for the requests of {@code gate}; at most {@code othersMax} tasks
     * that are not calls wait.
     */
    public DeadlinePool(Gate gate, int threads, int othersMax, ThreadFactory factory) {
        super(
                threads,
                threads,
                0,
                TimeUnit.MILLISECONDS,
                new CallQueue(gate.queue(), threads, othersMax),
                factory,
                (task, pool) -> {
                    throw new RejectedExecutionException("the pool is closed, or too many tasks wait");
                });
        prestartAllCoreThreads();
    }
}
