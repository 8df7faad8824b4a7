package greenwave.storm;

import java.util.Map;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.storm.Config;

/**
 * Working thread of a bolt's task: Storm's executor enqueues, this thread works.
 *
 * <p>State shared by the two threads is protected by one lock. If the work throws, the thread ends, and the
 * executor throws the same exception at the next tuple: Storm then ends the worker, as it does when a bolt
 * throws in the executor itself. In a worker process, the report of the exception ends the worker at once.
 */
abstract class TaskThread {
    final ReentrantLock lock = new ReentrantLock();
    final BudgetedCollector collector;

    private final Condition notEmpty = lock.newCondition();
    private final Condition notFull = lock.newCondition();
    private final Thread thread;
    private volatile boolean closed;
    private Throwable failure;
    private long flushedNanos;

    TaskThread(String name, BudgetedCollector collector) {
        this.collector = collector;
        thread = new Thread(this::run, name);
        thread.setDaemon(true);
    }

    /**
     * Rejects {@code conf} if tuples are batched for bolts of the same worker: Storm keeps one list of flush
     * targets for all threads of an executor, so tuples batched by this thread might never be flushed.
     */
    static void check(Map<String, Object> conf) {
        long gathered = conf.get(Config.TOPOLOGY_PRODUCER_BATCH_SIZE) instanceof Number size ? size.longValue() : 1;
        if (gathered > 1) {
            throw new IllegalArgumentException(Config.TOPOLOGY_PRODUCER_BATCH_SIZE + " is " + gathered
                    + "; with deadlines it must be 1, Storm's default");
        }
    }

    /** Next work at {@code nowNanos}; null if there is none yet. The lock is held. */
    abstract Runnable next(long nowNanos);

    /** Time until the next timed work; {@link Long#MAX_VALUE} for none. The lock is held. */
    abstract long idleNanos(long nowNanos);

    final void start() {
        thread.start();
    }

    /** Ends the thread; waits for it at most as long as Storm waits for its own threads. */
    final void close() {
        closed = true;
        thread.interrupt();
        try {
            thread.join(CLOSE_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Signals new work. The lock is held. */
    final void wake() {
        notEmpty.signal();
    }

    /** Waits until an entry was removed; for the executor, which may be interrupted meanwhile. The lock is held. */
    final void awaitSpace() {
        rethrow();
        try {
            notFull.await();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException("interrupted while the queue was full", interrupted);
        }
        rethrow();
    }

    /** Throws the exception that ended the thread, if any. The lock is held. */
    final void rethrow() {
        if (failure != null) {
            throw new IllegalStateException(thread.getName() + " failed at an earlier tuple", failure);
        }
    }

    private void run() {
        try {
            while (true) {
                take().run();
                flush();
            }
        } catch (InterruptedException interrupted) {
            // Only close() interrupts.
        } catch (Throwable thrown) {
            if (!closed) {
                end(thrown);
                throw thrown;
            }
        }
    }

    private Runnable take() throws InterruptedException {
        lock.lockInterruptibly();
        try {
            while (true) {
                long now = TupleBudget.now();
                Runnable work = next(now);
                if (work != null) {
                    notFull.signal();
                    return work;
                }
                notEmpty.awaitNanos(idleNanos(now));
            }
        } finally {
            lock.unlock();
        }
    }

    /**
     * Storm batches the tuples that a thread sends to other workers if so configured
     * (topology.transfer.batch.size), and flushes only the batches of its own threads.
     */
    private void flush() {
        long now = TupleBudget.now();
        if (now - flushedNanos >= FLUSH_NANOS || isIdle(now)) {
            flushedNanos = now;
            collector.flush();
        }
    }

    private boolean isIdle(long nowNanos) {
        lock.lock();
        try {
            return idleNanos(nowNanos) > 0;
        } finally {
            lock.unlock();
        }
    }

    private void end(Throwable thrown) {
        lock.lock();
        try {
            failure = thrown;
            notFull.signal();
        } finally {
            lock.unlock();
        }
        collector.reportError(thrown);
    }

    private static final long CLOSE_MS = 100;
    /** Flush interval, the same as Storm's (topology.batch.flush.interval.millis). */
    private static final long FLUSH_NANOS = 1_000_000;
}
