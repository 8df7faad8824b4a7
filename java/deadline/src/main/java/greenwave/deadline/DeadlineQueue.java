package greenwave.deadline;

import java.io.Serializable;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeSet;

/**
 * Queue in deadline order that drops requests whose deadline cannot be met.
 *
 * <p>Placed in front of a server (a thread pool, a concurrency limit), so that waiting time counts against the
 * budget. {@link Order} selects the next request, {@link Shedding} the requests to drop. Every entry is returned
 * once: to be served, or to be answered with the reason. The default is earliest deadline first with shedding
 * under overload. Deadline order <em>without</em> shedding collapses under overload, since it prefers the
 * requests that are about to be late; it exists for experiments.
 *
 * <p>Under {@link Shedding#OVERLOAD} a request is refused only when it has expired or the queue is full. The next
 * request by the order is passed over if serving it now costs more than it gains. Gain: its probability to be in
 * time. Cost: the sum, over the {@value #SCAN_MAX} requests behind it, of the probability that each of them loses
 * by starting later by its expected occupancy. A request without a deadline loses nothing by waiting, so its gain
 * is nearly zero. Where requests are lost anyway ({@link LossMeter}), a request is also passed over if its
 * probability has fallen below a share of what it was at the offer. A sender that understates its budget must
 * not gain by it: while more than one request in fifty is lost, those of a budget that lose less than others of
 * their size wait for one with a longer budget, unless the order is the application's own. Requests that were
 * passed over are served when no other waits. One thread at a time. Source: D2P §3.2 (a, scheduling); Liu and
 * Layland 1973 (EDF); Mok 1983 (laxity); Moore 1968 (fewest late jobs), in expectation.
 */
public final class DeadlineQueue<T extends DeadlineQueue.Entry> {
    /** Queued request. */
    public interface Entry {
        /** Remaining budget at the offer, in nanoseconds; empty without a deadline. */
        OptionalLong leftNanos();

        /**
         * Expected time from the start of service to the answer, in nanoseconds, calls to other services
         * included: otherwise later services would drop requests after the work here is done.
         */
        long serviceNanos();

        /**
         * Expected service time of the slowest sub-request of the same request; its own for a request that was not
         * split.
         */
        default long slowestNanos() {
            return serviceNanos();
        }

        /** Distribution of the time from start of service to its answer here. */
        default Forecast forecast() {
            return Forecast.constant(serviceNanos());
        }

        /** Expected time from its answer here to the answer that its budget is for. */
        default long restNanos() {
            return 0;
        }
    }

    /** Order given by the application: rank from the time of the offer and the entry, lowest first. */
    @FunctionalInterface
    public interface Rank<T> {
        /** The rank of {@code entry}, offered at {@code nowNanos}. */
        long of(long nowNanos, T entry);
    }

    /**
     * Settings of a queue.
     *
     * @param capacity maximum number of entries, at least 1
     * @param order order of service
     * @param shedding rule for dropping requests
     * @param ageMaxNanos deadline assumed for requests without one, in the order of service. Requests that waited
     *     longer are served every ninth time, whatever the order; under {@link Shedding#OVERLOAD} only those without
     *     a deadline
     */
    public record Settings(int capacity, Order order, Shedding shedding, long ageMaxNanos)
            implements Serializable {
        /** 10,000 entries, earliest deadline first, shedding under overload, maximum age 1 s. */
        public static final Settings DEFAULT =
                new Settings(10_000, Order.EDF, Shedding.OVERLOAD, 1_000_000_000L);

        /** Throws {@link IllegalArgumentException} if the capacity is below 1. */
        public Settings {
            if (capacity < 1) {
                throw new IllegalArgumentException("capacity " + capacity + " is outside 1.." + Integer.MAX_VALUE);
            }
        }
    }

    /**
     * Result of an offer.
     *
     * @param back the entry to answer with the reason: the offered one, or the oldest, which was to be dropped and
     *     made space for it; null if there is none
     * @param reason reason for {@code back}; null without one
     * @param queued true if the offered entry is in the queue
     */
    public record Offered<T>(T back, Shedding.Reason reason, boolean queued) {}

    /**
     * Entry taken from the queue.
     *
     * @param entry the next entry
     * @param reason null: serve it; else answer it with this reason and take the next entry
     */
    public record Turn<T>(T entry, Shedding.Reason reason) {}

    /** Consecutive entries served before one that exceeds the maximum age. */
    static final int PASSED_IN_A_ROW = 8;

    /** Entries behind the next one whose loss is computed. */
    static final int SCAN_MAX = 32;

    private final Settings settings;
    private final Rank<T> custom;
    private final TreeSet<Waiting<T>> ranked =
            new TreeSet<>(Comparator.<Waiting<T>>comparingLong(w -> w.rank).thenComparingLong(w -> w.push));
    /** Entries without a deadline that were passed over. */
    private final TreeSet<Waiting<T>> patient = new TreeSet<>(Comparator.<Waiting<T>>comparingLong(w -> w.push));
    /** Entries with a deadline that were passed over. */
    private final TreeSet<Waiting<T>> doubtful =
            new TreeSet<>(Comparator.<Waiting<T>>comparingLong(w -> w.dueNanos).thenComparingLong(w -> w.push));

    private final LinkedHashSet<Waiting<T>> byAge = new LinkedHashSet<>();
    private final LinkedHashSet<Waiting<T>> withoutDeadline = new LinkedHashSet<>();
    private final LossMeter losses = new LossMeter();
    private int servers = 1;
    private long pushes;
    /** Consecutive entries not served because of their age. */
    private int inOrder = PASSED_IN_A_ROW;

    /** An empty queue in front of one server. */
    public DeadlineQueue(Settings settings) {
        this(settings, null);
    }

    /** An empty queue in the order of {@code rank}; that of {@code settings} is not used. */
    public DeadlineQueue(Settings settings, Rank<T> rank) {
        this.settings = settings;
        this.custom = rank;
    }

    /** Sets the number of parallel servers behind this queue, at least 1. */
    public DeadlineQueue<T> withServers(int servers) {
        this.servers = Math.max(1, servers);
        return this;
    }

    /** Adds {@code entry} at {@code nowNanos}, unless it is to be dropped at once or the queue is full. */
    public Offered<T> offer(long nowNanos, T entry) {
        Waiting<T> waiting = waiting(nowNanos, entry);
        Shedding.Reason reason = shed(nowNanos, waiting);
        if (reason != null) {
            return new Offered<>(entry, reason, false);
        }
        if (size() < settings.capacity) {
            push(waiting);
            return new Offered<>(null, null, true);
        }
        Waiting<T> replaced = doubtful.isEmpty() ? byAge.iterator().next() : doubtful.first();
        Shedding.Reason replacedReason = shed(nowNanos, replaced);
        if (replacedReason == null && replaced.band == doubtful) {
            replacedReason = Shedding.Reason.INFEASIBLE;
        }
        if (replacedReason == null) {
            return new Offered<>(entry, Shedding.Reason.FULL, false);
        }
        remove(replaced);
        push(waiting);
        return new Offered<>(replaced.entry, replacedReason, true);
    }

    /** Takes the next entry at {@code nowNanos}; null if the queue is empty. */
    public Turn<T> next(long nowNanos) {
        if (isEmpty()) {
            return null;
        }
        Waiting<T> turn =
                settings.shedding == Shedding.OVERLOAD ? nextInOverload(nowNanos) : nextInOrder(nowNanos);
        remove(turn);
        Shedding.Reason reason = shed(nowNanos, turn);
        long probability = reason == null ? turn.probability(nowNanos) : 0;
        losses.record(nowNanos, probability);
        if (turn.hasDeadline()) {
            losses.recordClass(turn.budgetClass, turn.probabilityAtOffer, probability);
        }
        return new Turn<>(turn.entry, reason);
    }

    private Waiting<T> nextInOrder(long nowNanos) {
        Waiting<T> aged = aged(nowNanos, byAge);
        if (aged != null) {
            return aged;
        }
        Waiting<T> head = ranked.first();
        if (!sharesLosses() || shed(nowNanos, head) != null) {
            return head;
        }
        return longerBudgetThan(head, PASSED_OVER_MAX).orElse(head);
    }

    /**
     * True if budgets get equal shares of the losses outside of {@link Shedding#OVERLOAD}: they order the queue, and
     * those that have expired are dropped.
     */
    private boolean sharesLosses() {
        return (settings.shedding == Shedding.EXPIRED || settings.shedding == Shedding.INFEASIBLE)
                && (settings.order == Order.EDF || settings.order == Order.LAXITY);
    }

    private Waiting<T> nextInOverload(long nowNanos) {
        if (!doubtful.isEmpty() && doubtful.first().isExpired(nowNanos)) {
            return doubtful.first();
        }
        if (!ranked.isEmpty() && ranked.first().isExpired(nowNanos)) {
            return ranked.first();
        }
        Waiting<T> aged = aged(nowNanos, custom == null ? withoutDeadline : byAge);
        if (aged != null) {
            return aged;
        }
        long floor = losses.floor();
        for (int passed = 0; passed < PASSED_OVER_MAX && !ranked.isEmpty(); passed++) {
            Waiting<T> head = ranked.first();
            if (size() == 1 || !costsMoreThanItGains(nowNanos, head, floor)) {
                if (head.hasDeadline()) {
                    return head;
                }
                break;
            }
            ranked.remove(head);
            head.band = head.hasDeadline() ? doubtful : patient;
            head.band.add(head);
        }
        // A request without a deadline loses nothing by waiting for one that has a chance.
        if (!doubtful.isEmpty() && doubtful.last().probability(nowNanos) >= GAIN_WITHOUT_DEADLINE) {
            return doubtful.last();
        }
        if (!ranked.isEmpty()) {
            return ranked.first();
        }
        return patient.isEmpty() ? doubtful.last() : patient.first();
    }

    /** True if {@code head}, the first of the ranked entries, is to be passed over. */
    private boolean costsMoreThanItGains(long nowNanos, Waiting<T> head, long floor) {
        long gain = head.hasDeadline() ? head.probability(nowNanos) : GAIN_WITHOUT_DEADLINE;
        if (head.hasDeadline() && gain < floor * head.probabilityAtOffer / Forecast.ONE) {
            return true;
        }
        if (longerBudgetThan(head, SCAN_MAX).isPresent()) {
            return true;
        }
        long start = nowNanos;
        long cost = 0;
        int scanned = 0;
        for (Waiting<T> behind : ranked) {
            if (behind == head) {
                continue;
            }
            if (scanned++ == SCAN_MAX) {
                break;
            }
            if (behind.hasDeadline()) {
                cost += behind.probability(start) - behind.probability(Spans.plus(start, head.turnNanos));
                if (cost > gain) {
                    return true;
                }
            }
            start = Spans.plus(start, behind.turnNanos);
        }
        return false;
    }

    /**
     * Entry that {@code head} waits for, of the {@code scan} ones behind it: one with a longer budget, whose class
     * does not lose less than others, while that of {@code head} does.
     */
    private Optional<Waiting<T>> longerBudgetThan(Waiting<T> head, int scan) {
        if (custom != null || !head.hasDeadline() || !isFavoured(head)) {
            return Optional.empty();
        }
        return ranked.stream()
                .skip(1)
                .limit(scan)
                .filter(behind -> behind.hasDeadline()
                        && behind.budgetClass.isLongerThan(head.budgetClass)
                        && !isFavoured(behind))
                .findFirst();
    }

    private boolean isFavoured(Waiting<T> waiting) {
        return losses.isFavoured(waiting.budgetClass, waiting.probabilityAtOffer);
    }

    /** The oldest of {@code ages}, if it is to be served because of its age; else null. Counts the call. */
    private Waiting<T> aged(long nowNanos, LinkedHashSet<Waiting<T>> ages) {
        Waiting<T> oldest = ages.isEmpty() ? null : ages.iterator().next();
        boolean old = oldest != null && Spans.minus(nowNanos, oldest.offered) >= settings.ageMaxNanos;
        boolean aged = old && inOrder >= PASSED_IN_A_ROW;
        inOrder = aged ? 0 : Math.min(inOrder + 1, PASSED_IN_A_ROW);
        return aged ? oldest : null;
    }

    /** Number of entries. */
    public int size() {
        return byAge.size();
    }

    /** True if there is no entry. */
    public boolean isEmpty() {
        return byAge.isEmpty();
    }

    /** Time of the offer of the oldest entry; empty if the queue is empty. */
    public OptionalLong oldestNanos() {
        return isEmpty() ? OptionalLong.empty() : OptionalLong.of(byAge.iterator().next().offered);
    }

    private Waiting<T> waiting(long nowNanos, T entry) {
        OptionalLong left = entry.leftNanos();
        long service = entry.serviceNanos();
        long push = ++pushes;
        long rank = custom != null
                ? custom.of(nowNanos, entry)
                : settings.order.rank(
                        nowNanos, push, left.orElse(settings.ageMaxNanos), service, entry.slowestNanos());
        long due = left.isEmpty() ? Long.MAX_VALUE : Spans.plus(nowNanos, left.getAsLong());
        Forecast forecast = entry.forecast();
        return new Waiting<>(
                entry, nowNanos, due, service, forecast, entry.restNanos(), forecast.meanNanos() / servers, rank, push);
    }

    private Shedding.Reason shed(long nowNanos, Waiting<T> waiting) {
        return settings.shedding.sheds(nowNanos, waiting.due(), waiting.service);
    }

    private void push(Waiting<T> waiting) {
        waiting.band = ranked;
        ranked.add(waiting);
        byAge.add(waiting);
        if (!waiting.hasDeadline()) {
            withoutDeadline.add(waiting);
        }
    }

    private void remove(Waiting<T> waiting) {
        waiting.band.remove(waiting);
        byAge.remove(waiting);
        withoutDeadline.remove(waiting);
    }

    /** Entry with its properties at the offer; compared by identity. */
    private static final class Waiting<T> {
        final T entry;
        final long offered;
        /** {@link Long#MAX_VALUE} without a deadline. */
        final long dueNanos;

        final long service;
        final Forecast forecast;
        final long restNanos;
        /** Time from one start of service to the next, if all entries were like this one. */
        final long turnNanos;

        final long rank;
        final long push;
        /** Probability to be in time if service had started at the offer, in units of 2⁻¹⁶. */
        final long probabilityAtOffer;
        /** Of no meaning without a deadline. */
        final LossMeter.BudgetClass budgetClass;

        TreeSet<Waiting<T>> band;

        Waiting(
                T entry,
                long offered,
                long dueNanos,
                long service,
                Forecast forecast,
                long restNanos,
                long turnNanos,
                long rank,
                long push) {
            this.entry = entry;
            this.offered = offered;
            this.dueNanos = dueNanos;
            this.service = service;
            this.forecast = forecast;
            this.restNanos = restNanos;
            this.turnNanos = turnNanos;
            this.rank = rank;
            this.push = push;
            this.probabilityAtOffer = probability(offered);
            this.budgetClass = LossMeter.BudgetClass.of(forecast.meanNanos(), Spans.minus(dueNanos, offered));
        }

        boolean hasDeadline() {
            return dueNanos < Long.MAX_VALUE;
        }

        OptionalLong due() {
            return hasDeadline() ? OptionalLong.of(dueNanos) : OptionalLong.empty();
        }

        boolean isExpired(long nowNanos) {
            return dueNanos <= nowNanos;
        }

        /** Probability to be in time if service starts at {@code startNanos}, in units of 2⁻¹⁶. */
        long probability(long startNanos) {
            return hasDeadline()
                    ? forecast.probabilityWithin(Spans.minus(Spans.minus(dueNanos, startNanos), restNanos))
                    : Forecast.ONE;
        }
    }

    /** Maximum number of entries passed over in one call, which bounds its duration. */
    private static final int PASSED_OVER_MAX = 128;
    /** Gain of serving a request that loses nothing by waiting: one in twenty. */
    private static final long GAIN_WITHOUT_DEADLINE = Forecast.ONE / 20;
}
