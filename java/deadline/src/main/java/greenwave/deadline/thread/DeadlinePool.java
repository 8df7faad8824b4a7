package greenwave.deadline.thread;

import greenwave.deadline.Gate;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * A fixed number of threads that serve {@link Call}s by what is left.
 *
 * <p>All threads are there from the start, so that every call passes the queue and whoever is hopeless is
 * found out. What is no call goes first, in order of arrival. Bounded: as many calls as the gate's queue
 * holds, and as many other tasks as said.
 */
public class DeadlinePool extends ThreadPoolExecutor {
    /**
     * A pool of {@code threads} (1 and more) for the requests of {@code gate}; {@code othersMax} tasks that
     * are no calls wait at most.
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
