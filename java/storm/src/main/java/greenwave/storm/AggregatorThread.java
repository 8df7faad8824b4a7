package greenwave.storm;

import greenwave.deadline.StageTimer;
import greenwave.deadline.thread.Deadlines;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.topology.FailedException;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.utils.Utils;

/**
 * The requests of an aggregator's task, and the thread that answers them.
 *
 * <p>Storm's executor adds parts; the thread takes out complete requests and those whose deadline has come,
 * the most urgent first. Each part is either used in an answer or late, and is acked once in either case.
 * Bounded: at most {@code capacity} requests wait, each with its number of parts, and as many answered
 * requests are remembered.
 */
final class AggregatorThread extends TaskThread {
    private final Arrivals arrivals;
    private final DeadlineAggregator.Answer answer;
    private final boolean mayBePartial;
    private final int expected;
    private final int capacity;
    private final AtomicLong whole = new AtomicLong();
    private final AtomicLong partial = new AtomicLong();
    private final AtomicLong early = new AtomicLong();
    private final AtomicLong refused = new AtomicLong();
    private final AtomicLong late = new AtomicLong();

    // Protected by the lock.
    private final Map<Key, Request> open = new HashMap<>();
    private final TreeSet<Request> openByDue = new TreeSet<>(URGENT_FIRST);
    private final TreeSet<Request> ready = new TreeSet<>(URGENT_FIRST);
    private final Map<Key, Boolean> answered;
    private long requests;

    AggregatorThread(
            String name,
            Arrivals arrivals,
            BudgetedCollector collector,
            DeadlineAggregator.Answer answer,
            boolean mayBePartial,
            int expected,
            int capacity) {
        super(name, collector);
        this.arrivals = arrivals;
        this.answer = answer;
        this.mayBePartial = mayBePartial;
        this.expected = expected;
        this.capacity = capacity;
        answered = new LinkedHashMap<>() {
            private static final long serialVersionUID = 1L;

            @Override
            protected boolean removeEldestEntry(Map.Entry<Key, Boolean> eldest) {
                return size() > capacity;
            }
        };
    }

    /** Number of requests answered with all their parts. */
    long whole() {
        return whole.get();
    }

    /** Number of requests answered with some of their parts. */
    long partial() {
        return partial.get();
    }

    /**
     * Number of requests answered with some of their parts before their deadline, because too many requests
     * were open.
     */
    long early() {
        return early.get();
    }

    /** Number of requests that need all their parts and were failed because too many requests were open. */
    long refused() {
        return refused.get();
    }

    /** Number of parts that arrived after the answer, or twice. */
    long late() {
        return late.get();
    }

    /**
     * Adds {@code tuple} to request {@code id}: as its part {@code part} or, if {@code isPart} is false, as
     * the tuple that opens it.
     */
    void take(Tuple tuple, Object id, Object part, boolean isPart) {
        StageTimer timer = arrivals.arrive(TupleBudget.now(), tuple).timer();
        Key key = new Key(id, tuple.getMessageId().getAnchors());
        boolean added;
        lock.lock();
        try {
            rethrow();
            added = !answered.containsKey(key) && add(key, tuple, timer, part, isPart);
        } finally {
            lock.unlock();
        }
        if (!added) {
            late.incrementAndGet();
            collector.ack(tuple);
        }
    }

    @Override
    Runnable next(long nowNanos) {
        while (mayBePartial && !openByDue.isEmpty() && openByDue.first().dueNanos <= nowNanos) {
            finish(openByDue.first(), partial);
        }
        Request request = ready.pollFirst();
        if (request == null) {
            return null;
        }
        boolean isRefused = !mayBePartial && request.parts.size() < expected;
        return isRefused ? () -> request.tuples.forEach(collector::fail) : () -> answer(request);
    }

    @Override
    long idleNanos(long nowNanos) {
        if (!ready.isEmpty()) {
            return 0;
        }
        return !mayBePartial || openByDue.isEmpty() ? Long.MAX_VALUE : Math.max(0, openByDue.first().dueNanos - nowNanos);
    }

    /** False if the request has that part already. */
    private boolean add(Key key, Tuple tuple, StageTimer timer, Object part, boolean isPart) {
        Request request = open.get(key);
        if (request == null) {
            makeSpace();
            request = new Request(key, ++requests);
            open.put(key, request);
        }
        if (isPart ? !request.partsSeen.add(part) : request.isOpened) {
            return false;
        }
        openByDue.remove(request);
        request.add(tuple, timer, isPart);
        openByDue.add(request);
        if (request.parts.size() == expected) {
            finish(request, whole);
        }
        wake();
        return true;
    }

    private void makeSpace() {
        while (open.size() + ready.size() >= capacity) {
            if (ready.isEmpty()) {
                finish(openByDue.first(), mayBePartial ? partial : refused);
                if (mayBePartial) {
                    early.incrementAndGet();
                }
                wake();
            }
            awaitSpace();
        }
    }

    /** Closes {@code request} to further parts and queues it to be answered or failed. */
    private void finish(Request request, AtomicLong counted) {
        counted.incrementAndGet();
        open.remove(request.key);
        openByDue.remove(request);
        answered.put(request.key, true);
        ready.add(request);
    }

    private void answer(Request request) {
        long now = TupleBudget.now();
        StageTimer timer = StageTimer.join(now, request.timers).orElseThrow();
        timer.start(now);
        try (Deadlines.Scope scope = Deadlines.enter(timer)) {
            List<Object> values = answer.of(request.key.id, List.copyOf(request.parts), expected);
            if (values != null) {
                collector.emit(Utils.DEFAULT_STREAM_ID, request.tuples, values);
            }
        } catch (FailedException failed) {
            request.tuples.forEach(collector::fail);
            return;
        }
        request.tuples.forEach(collector::ack);
    }

    /** Identity of a request, as one attempt of the spout: a replayed tuple has other roots. */
    private record Key(Object id, Set<Long> roots) {}

    private static final class Request {
        final Key key;
        final long number;
        final Set<Object> partsSeen = new HashSet<>();
        final List<Tuple> parts = new ArrayList<>();
        /** The parts and the opening tuple. */
        final List<Tuple> tuples = new ArrayList<>();
        final List<StageTimer> timers = new ArrayList<>();
        boolean isOpened;
        /** Earliest deadline among them, less the reserve. */
        long dueNanos = Long.MAX_VALUE;

        Request(Key key, long number) {
            this.key = key;
            this.number = number;
        }

        void add(Tuple tuple, StageTimer timer, boolean isPart) {
            if (isPart) {
                parts.add(tuple);
            } else {
                isOpened = true;
            }
            tuples.add(tuple);
            timers.add(timer);
            dueNanos = Math.min(dueNanos, timer.dueNanos());
        }
    }

    private static final Comparator<Request> URGENT_FIRST =
            Comparator.<Request>comparingLong(request -> request.dueNanos)
                    .thenComparingLong(request -> request.number);
}
