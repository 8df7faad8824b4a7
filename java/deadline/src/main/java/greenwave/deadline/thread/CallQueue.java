package greenwave.deadline.thread;

import greenwave.deadline.DeadlineQueue;
import java.util.AbstractQueue;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A pool's queue: other tasks (such as connection events) first, then calls in deadline order.
 *
 * <p>A call that is dropped is answered by the thread that drops it, outside the lock; it is never returned
 * by the queue. Bounded: the capacity in the settings for calls, and a maximum number of other tasks.
 * Implements only the methods that a thread pool uses: entries cannot be viewed or removed out of order.
 */
final class CallQueue extends AbstractQueue<Runnable> implements BlockingQueue<Runnable> {
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition filled = lock.newCondition();
    private final DeadlineQueue<Call> calls;
    private final ArrayDeque<Runnable> others = new ArrayDeque<>();
    private final int callsMax;
    private final int othersMax;

    CallQueue(DeadlineQueue.Settings settings, int threads, int othersMax) {
        this.calls = new DeadlineQueue<Call>(settings).withServers(threads);
        this.callsMax = settings.capacity();
        this.othersMax = othersMax;
    }

    /**
     * False if {@code task} is not a call and there is no space for it. True for every call: one that is not
     * queued is answered.
     */
    @Override
    public boolean offer(Runnable task) {
        if (!(task instanceof Call call)) {
            return offerOther(task);
        }
        DeadlineQueue.Offered<Call> offered;
        lock.lock();
        try {
            offered = calls.offer(Deadlines.now(), call);
            if (offered.queued()) {
                filled.signal();
            }
        } finally {
            lock.unlock();
        }
        if (offered.back() != null) {
            offered.back().shed(offered.reason());
        }
        return true;
    }

    private boolean offerOther(Runnable task) {
        lock.lock();
        try {
            if (others.size() == othersMax) {
                return false;
            }
            filled.signal();
            return others.add(task);
        } finally {
            lock.unlock();
        }
    }

    @Override
    public Runnable take() throws InterruptedException {
        return take(Long.MAX_VALUE);
    }

    @Override
    public Runnable poll(long timeout, TimeUnit unit) throws InterruptedException {
        return take(unit.toNanos(timeout));
    }

    private Runnable take(long waitNanos) throws InterruptedException {
        long left = waitNanos;
        while (true) {
            lock.lockInterruptibly();
            try {
                while (isEmpty()) {
                    if (left <= 0) {
                        return null;
                    }
                    left = filled.awaitNanos(left);
                }
            } finally {
                lock.unlock();
            }
            Runnable task = poll();
            if (task != null) {
                return task;
            }
        }
    }

    /** The next task, or null if there is none. Answers the calls that are dropped before it. */
    @Override
    public Runnable poll() {
        while (true) {
            DeadlineQueue.Turn<Call> turn;
            lock.lock();
            try {
                if (!others.isEmpty()) {
                    return others.poll();
                }
                turn = calls.next(Deadlines.now());
            } finally {
                lock.unlock();
            }
            if (turn == null || turn.reason() == null) {
                return turn == null ? null : turn.entry();
            }
            turn.entry().shed(turn.reason());
        }
    }

    @Override
    public int size() {
        lock.lock();
        try {
            return calls.size() + others.size();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public int remainingCapacity() {
        return Math.max(0, callsMax - size());
    }

    @Override
    public int drainTo(Collection<? super Runnable> target) {
        return drainTo(target, Integer.MAX_VALUE);
    }

    @Override
    public int drainTo(Collection<? super Runnable> target, int most) {
        List<Runnable> drained = new ArrayList<>();
        while (drained.size() < most) {
            Runnable task = poll();
            if (task == null) {
                break;
            }
            drained.add(task);
        }
        target.addAll(drained);
        return drained.size();
    }

    @Override
    public void put(Runnable task) {
        throw new UnsupportedOperationException("this queue refuses, it does not wait");
    }

    @Override
    public boolean offer(Runnable task, long timeout, TimeUnit unit) {
        return offer(task);
    }

    /** Null: the queue does not show its entries. */
    @Override
    public Runnable peek() {
        return null;
    }

    /** Empty, for the same reason. */
    @Override
    public Iterator<Runnable> iterator() {
        return List.<Runnable>of().iterator();
    }
}
