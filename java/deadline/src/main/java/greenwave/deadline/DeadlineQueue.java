package greenwave.deadline;

import java.io.Serializable;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.OptionalLong;
import java.util.TreeSet;

/**
 * A queue that serves by what is left, and drops what cannot make it.
 *
 * <p>Stands in front of whatever serves (a thread pool, a concurrency limit), so that waiting counts. Who
 * goes next is an {@link Order}; what is not served any more is a {@link Shedding}. Every entry comes out
 * again, to be served or to be answered with the reason. The default is earliest deadline first with
 * infeasible requests dropped; deadline order <em>without</em> dropping collapses once there is too much
 * work, since it prefers exactly those that are about to be late, and is there for experiments. One thread
 * at a time. Source: D2P §3.2 (a, scheduling); Liu and Layland 1973 (EDF); Mok 1983 (laxity).
 */
public final class DeadlineQueue<T extends DeadlineQueue.Entry> {
    /** What waits. */
    public interface Entry {
        /** What is left of its budget at the offer, in nanoseconds; empty when it has no deadline. */
        OptionalLong leftNanos();

        /**
         * How long its answer will take once its turn has come, in nanoseconds. Calls to other services
         * count: dropping by the service here alone lets through what later services then drop, after the
         * work is done.
         */
        long serviceNanos();

        /**
         * How long the slowest is expected to take of those that are waited for together, here or elsewhere;
         * its own service where it stands alone.
         */
        default long slowestNanos() {
            return serviceNanos();
        }
    }

    /** An order of the application's own: the least number first, from the instant of the offer and the entry. */
    @FunctionalInterface
    public interface Rank<T> {
        /** The rank of {@code entry}, offered at {@code nowNanos}. */
        long of(long nowNanos, T entry);
    }

    /**
     * What a queue is made of.
     *
     * @param capacity at most so many wait, at least 1
     * @param order who goes next
     * @param shedding who is dropped instead of served
     * @param patienceNanos a request without a deadline is ordered as if it had this one; one that waited
     *     for this long is served every ninth time, whatever the order
     */
    public record Settings(int capacity, Order order, Shedding shedding, long patienceNanos)
            implements Serializable {
        /** 10,000 waiting, earliest deadline first, infeasible ones dropped, patience of a second. */
        public static final Settings DEFAULT =
                new Settings(10_000, Order.EDF, Shedding.INFEASIBLE, 1_000_000_000L);

        /** Refuses a capacity below 1 with {@link IllegalArgumentException}. */
        public Settings {
            if (capacity < 1) {
                throw new IllegalArgumentException("capacity " + capacity + " is outside 1.." + Integer.MAX_VALUE);
            }
        }
    }

    /**
     * What became of a request that was offered.
     *
     * @param back the entry to answer with the reason: the one offered, or the oldest, which was to be
     *     dropped anyway and left for it; null when there is none
     * @param reason why it comes back; null when none does
     * @param queued whether the one offered waits
     */
    public record Offered<T>(T back, Shedding.Reason reason, boolean queued) {}

    /**
     * Who comes out of the queue.
     *
     * @param entry the one whose turn it is
     * @param reason null: serve it; else answer it with this and ask again, since no work was given out
     */
    public record Turn<T>(T entry, Shedding.Reason reason) {}

    /** Turns in a row that may pass over those that have waited for too long; the next is theirs. */
    static final int PASSED_IN_A_ROW = 8;

    private final Settings settings;
    private final Rank<T> custom;
    private final TreeSet<Waiting<T>> byRank =
            new TreeSet<>(Comparator.<Waiting<T>>comparingLong(w -> w.rank).thenComparingLong(w -> w.push));
    private final LinkedHashSet<Waiting<T>> byAge = new LinkedHashSet<>();
    private long pushes;
    /** Turns in a row that were not the oldest's for its age. */
    private int inOrder = PASSED_IN_A_ROW;

    /** An empty queue. */
    public DeadlineQueue(Settings settings) {
        this(settings, null);
    }

    /** An empty queue in the order of {@code rank}; that of {@code settings} is not used. */
    public DeadlineQueue(Settings settings, Rank<T> rank) {
        this.settings = settings;
        this.custom = rank;
    }

    /** Takes {@code entry} in at {@code nowNanos}, unless it is hopeless already or there is no room. */
    public Offered<T> offer(long nowNanos, T entry) {
        Waiting<T> waiting = waiting(nowNanos, entry);
        Shedding.Reason hopeless = shed(nowNanos, waiting);
        if (hopeless != null) {
            return new Offered<>(entry, hopeless, false);
        }
        if (size() < settings.capacity) {
            push(waiting);
            return new Offered<>(null, null, true);
        }
        Waiting<T> oldest = byAge.iterator().next();
        Shedding.Reason reason = shed(nowNanos, oldest);
        if (reason == null) {
            return new Offered<>(entry, Shedding.Reason.FULL, false);
        }
        remove(oldest);
        push(waiting);
        return new Offered<>(oldest.entry, reason, true);
    }

    /** The entry whose turn it is at {@code nowNanos}; null when nobody waits. */
    public Turn<T> next(long nowNanos) {
        if (isEmpty()) {
            return null;
        }
        Waiting<T> oldest = byAge.iterator().next();
        boolean old = Spans.minus(nowNanos, oldest.offered) >= settings.patienceNanos;
        boolean aged = old && inOrder >= PASSED_IN_A_ROW;
        inOrder = aged ? 0 : Math.min(inOrder + 1, PASSED_IN_A_ROW);
        Waiting<T> turn = aged ? oldest : byRank.first();
        remove(turn);
        return new Turn<>(turn.entry, shed(nowNanos, turn));
    }

    /** How many wait. */
    public int size() {
        return byRank.size();
    }

    /** Whether nobody waits. */
    public boolean isEmpty() {
        return byRank.isEmpty();
    }

    /** When the one that has waited longest was offered; empty when nobody waits. */
    public OptionalLong oldestNanos() {
        return isEmpty() ? OptionalLong.empty() : OptionalLong.of(byAge.iterator().next().offered);
    }

    private Waiting<T> waiting(long nowNanos, T entry) {
        OptionalLong left = entry.leftNanos();
        long service = entry.serviceNanos();
        long patience = settings.patienceNanos;
        long urgency = left.isEmpty() ? patience : Math.min(left.getAsLong(), patience);
        long push = ++pushes;
        long rank = custom != null
                ? custom.of(nowNanos, entry)
                : settings.order.rank(nowNanos, push, urgency, service, entry.slowestNanos());
        OptionalLong due =
                left.isEmpty() ? left : OptionalLong.of(Spans.plus(nowNanos, left.getAsLong()));
        return new Waiting<>(entry, nowNanos, due, service, rank, push);
    }

    private Shedding.Reason shed(long nowNanos, Waiting<T> waiting) {
        return settings.shedding.sheds(nowNanos, waiting.due, waiting.service);
    }

    private void push(Waiting<T> waiting) {
        byRank.add(waiting);
        byAge.add(waiting);
    }

    private void remove(Waiting<T> waiting) {
        byRank.remove(waiting);
        byAge.remove(waiting);
    }

    /** An entry with what it was told at the offer; the same only as itself. */
    private static final class Waiting<T> {
        final T entry;
        final long offered;
        final OptionalLong due;
        final long service;
        final long rank;
        final long push;

        Waiting(T entry, long offered, OptionalLong due, long service, long rank, long push) {
            this.entry = entry;
            this.offered = offered;
            this.due = due;
            this.service = service;
            this.rank = rank;
            this.push = push;
        }
    }
}
