package greenwave.deadline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import greenwave.deadline.DeadlineQueue.Offered;
import greenwave.deadline.DeadlineQueue.Settings;
import greenwave.deadline.DeadlineQueue.Turn;
import greenwave.deadline.Shedding.Reason;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** Tests of order and shedding, and comparison with theory. */
//~ java: budgets, deadlines and queue follow the rules of the Rust side
class DeadlineQueueTest {
    private record Request(int number, OptionalLong leftNanos, long serviceNanos) implements DeadlineQueue.Entry {
        static Request of(int number, long left, long service) {
            return new Request(number, OptionalLong.of(left), service);
        }
    }

    /** A sub-request; the slowest sub-request of the same request takes {@code slowestNanos}. */
    private record OfMany(String name, long left, long serviceNanos, long slowestNanos)
            implements DeadlineQueue.Entry {
        @Override
        public OptionalLong leftNanos() {
            return OptionalLong.of(left);
        }
    }

    private record Waiting(long offered, Request request) {}

    @Test
    void nothingIsLostAndExactlyTheHopelessAreDropped() {
        Random random = new Random(20261122);
        for (Order order : Order.values()) {
            for (Shedding shedding : Shedding.values()) {
                for (int round = 0; round < 60; round++) {
                    check(order, shedding, random);
                }
            }
        }
    }

    /** Random steps, compared with a list of entries. */
    private static void check(Order order, Shedding shedding, Random random) {
        DeadlineQueue<Request> queue = new DeadlineQueue<>(settings(order, shedding));
        TreeMap<Integer, Waiting> waiting = new TreeMap<>();
        long now = 1_000;
        for (int number = 0; number < 200; number++) {
            int step = random.nextInt(9);
            if (step < 4) {
                OptionalLong left = random.nextInt(5) == 0 ? OptionalLong.empty() : OptionalLong.of(random.nextLong(500));
                offer(queue, waiting, shedding, now, new Request(number, left, random.nextLong(200)));
            } else if (step < 7) {
                next(queue, waiting, shedding, now);
            } else {
                now += random.nextLong(100);
            }
            assertEquals(waiting.size(), queue.size());
            assertEquals(waiting.isEmpty(), queue.isEmpty());
            assertEquals(waiting.values().stream().mapToLong(Waiting::offered).min(), queue.oldestNanos());
        }
        while (!queue.isEmpty()) {
            next(queue, waiting, shedding, now);
        }
        assertTrue(waiting.isEmpty(), "something was lost");
    }

    private static void offer(
            DeadlineQueue<Request> queue, TreeMap<Integer, Waiting> waiting, Shedding shedding, long now, Request request) {
        Reason dropReason = dropReason(shedding, now, new Waiting(now, request));
        Offered<Request> offered = queue.offer(now, request);
        if (!offered.queued()) {
            assertEquals(request, offered.back());
            if (offered.reason() == Reason.FULL) {
                assertEquals(12, waiting.size());
                assertNull(dropReason);
                assertNull(dropReason(shedding, now, waiting.firstEntry().getValue()), "dropped entries keep no place");
            } else {
                assertEquals(dropReason, offered.reason());
            }
            return;
        }
        assertNull(dropReason);
        if (offered.back() != null) {
            Waiting gone = waiting.remove(offered.back().number);
            Reason expected = dropReason(shedding, now, gone);
            boolean doubtful = shedding == Shedding.OVERLOAD && expected == null;
            assertEquals(offered.reason(), doubtful ? Reason.INFEASIBLE : expected);
        }
        waiting.put(request.number, new Waiting(now, request));
    }

    private static void next(
            DeadlineQueue<Request> queue, TreeMap<Integer, Waiting> waiting, Shedding shedding, long now) {
        Turn<Request> turn = queue.next(now);
        if (turn == null) {
            assertTrue(waiting.isEmpty(), "something was lost");
            return;
        }
        Waiting known = waiting.remove(turn.entry().number);
        assertEquals(known.request, turn.entry());
        assertEquals(dropReason(shedding, now, known), turn.reason());
    }

    /** Expected reason for dropping a request: an independent statement of the rule. */
    private static Reason dropReason(Shedding shedding, long now, Waiting waiting) {
        if (waiting.request.leftNanos.isEmpty() || shedding == Shedding.NONE) {
            return null;
        }
        long left = waiting.request.leftNanos.getAsLong() - (now - waiting.offered);
        if (left <= 0) {
            return Reason.EXPIRED;
        }
        return shedding == Shedding.INFEASIBLE && left < waiting.request.serviceNanos ? Reason.INFEASIBLE : null;
    }

    @Test
    void eachOrderServesAsItsNameSays() {
        assertEquals(List.of(0, 1, 2, 3), orderOf(new DeadlineQueue<>(settings(Order.FIFO, Shedding.NONE))));
        assertEquals(List.of(3, 2, 1, 0), orderOf(new DeadlineQueue<>(settings(Order.LIFO, Shedding.NONE))));
        assertEquals(List.of(1, 3, 0, 2), orderOf(new DeadlineQueue<>(settings(Order.EDF, Shedding.NONE))));
        assertEquals(List.of(2, 1, 3, 0), orderOf(new DeadlineQueue<>(settings(Order.LAXITY, Shedding.NONE))));
        assertEquals(List.of(1, 3, 2, 0), orderOf(new DeadlineQueue<>(settings(Order.PAPER, Shedding.NONE))));
        DeadlineQueue.Rank<Request> longestFirst = (now, request) -> -request.serviceNanos;
        assertEquals(
                List.of(2, 0, 1, 3), orderOf(new DeadlineQueue<>(settings(Order.EDF, Shedding.NONE), longestFirst)));
    }

    @Test
    void atAPaceWhatTheSlowestPartTakesCountsFourTimesAndWhatIsLeftAQuarter() {
        DeadlineQueue<OfMany> queue = new DeadlineQueue<>(settings(Order.PACE, Shedding.NONE));
        assertTrue(queue.offer(0, new OfMany("of a long one", 400, 1, 100)).queued());
        assertTrue(queue.offer(10, new OfMany("of a short one", 400, 50, 50)).queued());
        assertTrue(queue.offer(20, new OfMany("urgent", 40, 90, 100)).queued());
        for (String name : List.of("of a short one", "urgent", "of a long one")) {
            assertEquals(name, queue.next(40).entry().name);
        }
    }

    /** The order in which four requests, offered 10 ns apart, are served. */
    private static List<Integer> orderOf(DeadlineQueue<Request> queue) {
        long[][] requests = {{400, 0}, {100, 0}, {380, 300}, {105, 0}};
        for (int number = 0; number < requests.length; number++) {
            Request request = Request.of(number, requests[number][0], requests[number][1]);
            assertTrue(queue.offer(10L * number, request).queued());
        }
        List<Integer> served = new ArrayList<>();
        for (Turn<Request> turn = queue.next(40); turn != null; turn = queue.next(40)) {
            served.add(turn.entry().number);
        }
        return served;
    }

    /** Jackson 1955: if any order meets all deadlines, earliest deadline first does. */
    @Test
    void edfIsOnTimeWheneverAnyOrderIs() {
        Random random = new Random(13);
        int all = 0;
        for (int round = 0; round < 400; round++) {
            List<Request> requests = new ArrayList<>();
            for (int number = 0; number < 5; number++) {
                requests.add(Request.of(number, 1 + random.nextLong(500), 1 + random.nextLong(100)));
            }
            if (someOrderIsOnTime(0, requests)) {
                all++;
                DeadlineQueue<Request> queue = new DeadlineQueue<>(settings(Order.EDF, Shedding.INFEASIBLE));
                requests.forEach(request -> queue.offer(0, request));
                long now = 0;
                for (Turn<Request> turn = queue.next(now); turn != null; turn = queue.next(now)) {
                    assertNull(turn.reason(), "round " + round);
                    now += turn.entry().serviceNanos;
                    assertTrue(now <= turn.entry().leftNanos.getAsLong(), "round " + round);
                }
            }
        }
        assertTrue(all > 50, all + " feasible worlds");
    }

    private static boolean someOrderIsOnTime(long now, List<Request> requests) {
        if (requests.isEmpty()) {
            return true;
        }
        for (Request first : requests) {
            List<Request> rest = new ArrayList<>(requests);
            rest.remove(first);
            long done = now + first.serviceNanos;
            if (done <= first.leftNanos.getAsLong() && someOrderIsOnTime(done, rest)) {
                return true;
            }
        }
        return false;
    }

    @Test
    void whoHasNoDeadlineIsServedThoughUrgentRequestsKeepComing() {
        for (Order order : Order.values()) {
            DeadlineQueue<Request> queue = new DeadlineQueue<>(settings(order, Shedding.INFEASIBLE));
            assertTrue(queue.offer(0, new Request(0, OptionalLong.empty(), 1)).queued());
            boolean served = false;
            for (int number = 1; number < 400; number++) {
                long now = 10L * number;
                assertTrue(queue.offer(now, Request.of(number, 50, 1)).queued());
                Turn<Request> turn = queue.next(now);
                served |= turn.entry().number == 0 && turn.reason() == null;
                assertTrue(served || now < 600 + 30, order + ": passed over for longer than the maximum age");
            }
            assertTrue(served, order.name());
        }
    }

    @Test
    void whoHasWaitedForThePatienceHasEveryNinthTurn() {
        DeadlineQueue<Request> queue =
                new DeadlineQueue<>(settings(Order.EDF, Shedding.NONE), (now, request) -> -request.number);
        for (int number = 0; number < 12; number++) {
            assertTrue(queue.offer(0, new Request(number, OptionalLong.empty(), 1)).queued());
        }
        List<Integer> turns = new ArrayList<>();
        while (!queue.isEmpty()) {
            turns.add(queue.next(600).entry().number);
        }
        assertEquals(List.of(0, 11, 10, 9, 8, 7, 6, 5, 4, 1, 3, 2), turns);
    }

    @Test
    void aCapacityBelowOneIsRefused() {
        var refused = assertThrows(
                IllegalArgumentException.class, () -> new Settings(0, Order.EDF, Shedding.NONE, 1));
        assertEquals("capacity 0 is outside 1..2147483647", refused.getMessage());
    }

    @Test
    void aHistoryKnowsItsQuantilesAndFollowsAChange() {
        History<String> history = new History<>(2);
        Random random = new Random(3);
        assertEquals(0, history.estimate("search").samples());
        long now = 0;
        for (int n = 0; n < 5_000; n++) {
            now += 1_000_000;
            history.record(now, "search", 1_000 + random.nextLong(100_000));
            history.record(now, "write", 700_000);
        }
        History.Estimate search = history.estimate("search");
        assertTrue(Math.abs(search.p50Nanos() - 50_000) < 8_000 && Math.abs(search.p95Nanos() - 95_000) < 12_000);
        assertTrue(search.samples() <= 2_100, "two seconds of samples: " + search.samples());
        for (int n = 0; n < 16 + 5; n++) {
            history.record(now, "search", 3_000_000);
        }
        assertTrue(history.estimate("search").p50Nanos() >= 3_000_000, "five in a row show the change");
    }

    @Test
    void theKindThatWasRecordedLeastRecentlyMakesRoom() {
        History<Integer> history = new History<>(2);
        for (int n = 0; n < 20; n++) {
            history.record(n, 0, 1_000);
        }
        for (int kind = 1; kind < 100; kind++) {
            history.record(kind, kind, 5_000_000);
            history.record(kind, 0, 1_000);
        }
        assertTrue(history.estimate(0).p95Nanos() < 1_200, "a kind in use stays");
        assertTrue(history.estimate(7).p50Nanos() >= 5_000_000, "others share an estimate");
    }

    /** One server with 1.4 times the load that it can carry; 35 % of the clients send a quarter of their budgets. */
    //~ java: under overload a client that understates its budget is served in time no more often
    @Test
    void aClientGainsNothingByUnderstatingItsBudget() {
        long service = 5_000_000;
        long budget = 400_000_000;
        Random random = new Random(87);
        DeadlineQueue<Request> queue =
                new DeadlineQueue<>(new Settings(10_000, Order.EDF, Shedding.OVERLOAD, 1_000_000_000L));
        int[] sent = new int[2];
        int[] inTime = new int[2];
        TreeMap<Integer, Long> arrived = new TreeMap<>();
        long idle = 0;
        long now = 0;
        for (int number = 0; number < 10_000; number++) {
            now += (long) (-Math.log(1 - random.nextDouble()) * service / 1.4);
            idle = serve(queue, idle, now, service, budget, arrived, inTime);
            int liar = random.nextInt(100) < 35 ? 1 : 0;
            sent[liar]++;
            arrived.put(number, liar == 1 ? -now : now);
            queue.offer(now, Request.of(number, liar == 1 ? budget / 4 : budget, service));
        }
        double honest = (double) inTime[0] / sent[0];
        double liars = (double) inTime[1] / sent[1];
        assertTrue(liars <= honest + 0.05 && honest > 0.66, liars + " against " + honest);
    }

    //~ java: a budget that loses less than longer ones waits for them, by each rule that drops the expired
    @Test
    void aShortBudgetWaitsForThoseThatLoseMore() {
        for (Order order : Order.values()) {
            for (Shedding shedding : Shedding.values()) {
                if (shedding == Shedding.OVERLOAD) {
                    continue; // The shared vectors have the rule for overload.
                }
                boolean byDeadline = order == Order.EDF || order == Order.LAXITY;
                boolean waits = byDeadline && shedding != Shedding.NONE || order == Order.LIFO;
                List<Integer> expected = waits ? List.of(6, 5) : List.of(5, 6);
                assertEquals(expected, orderAfterLosses(order, shedding), order + " " + shedding);
            }
        }
    }

    /**
     * Order in which a short and a long budget are served, after requests with long ones have expired and one with a
     * short one was in time.
     */
    private static List<Integer> orderAfterLosses(Order order, Shedding shedding) {
        long ms = 1_000_000;
        long later = 500 * ms + 1;
        DeadlineQueue<Request> queue = new DeadlineQueue<>(new Settings(10_000, order, shedding, 1_000 * ms));
        queue.offer(1, Request.of(0, 20 * ms, 5 * ms));
        assertEquals(0, queue.next(1).entry().number());
        for (int number = 1; number < 5; number++) {
            queue.offer(1, Request.of(number, 400 * ms, 5 * ms));
        }
        while (!queue.isEmpty()) {
            queue.next(later);
        }
        queue.offer(later, Request.of(5, 20 * ms, 5 * ms));
        queue.offer(later, Request.of(6, 400 * ms, 5 * ms));
        return List.of(queue.next(later).entry().number(), queue.next(later).entry().number());
    }

    /** Serves what starts before {@code now}; the time at which the server is idle. */
    private static long serve(
            DeadlineQueue<Request> queue,
            long idle,
            long now,
            long service,
            long budget,
            TreeMap<Integer, Long> arrived,
            int[] inTime) {
        long at = idle;
        while (at < now && !queue.isEmpty()) {
            at = Math.max(at, queue.oldestNanos().getAsLong());
            Turn<Request> turn = queue.next(at);
            if (turn.reason() == null) {
                at += service;
                long sent = arrived.get(turn.entry().number());
                inTime[sent < 0 ? 1 : 0] += at - Math.abs(sent) <= budget ? 1 : 0;
            }
        }
        return queue.isEmpty() ? Math.max(at, now) : at;
    }

    private static Settings settings(Order order, Shedding shedding) {
        return new Settings(12, order, shedding, 600);
    }
}
