package greenwave.testbed;

import greenwave.deadline.Budget;
import greenwave.deadline.Stage;
import greenwave.deadline.Visit;
import greenwave.deadline.thread.Deadlines;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;

/**
 * One run of a plan over services in series: sends each request at its birth, come what may, and says what
 * became of it.
 *
 * <p>Births count from {@link #begin}. What is said of a request is said in order, and nothing after its end:
 * a service that finishes what its caller gave up is not heard. Threads share one.
 */
final class Run {
    private final Plan plan;
    private final Lines lines;
    /** Of each request, the stages that have served it; {@link #ENDED} after its end. */
    private final int[] passed;

    private int ended;
    private long beganNanos;
    private volatile long progressNanos;

    Run(Plan plan, Lines lines) {
        this.plan = plan;
        this.lines = lines;
        this.passed = new int[plan.requests().size()];
    }

    /** Who sends a request to the first service, on a thread that has its deadline. */
    @FunctionalInterface
    interface Client {
        /** Answered when the future completes, failed when it does so exceptionally or nothing is sent. */
        CompletableFuture<?> send(int request);
    }

    /** Says {@code ready}; births count from now. */
    void begin() {
        lines.say("ready");
        beganNanos = Deadlines.now();
        progressNanos = beganNanos;
    }

    /**
     * Sends all requests through {@code client} and returns when all have ended.
     *
     * @throws Unable when none has ended for a minute
     */
    void all(Client client) throws Unable {
        long late = 0;
        for (int request = 0; request < passed.length; request++) {
            long born = bornNanos(request);
            waitUntil(born);
            late = Math.max(late, Deadlines.now() - born);
            send(request, born, client);
        }
        awaitEnds();
        lines.say("late," + late);
    }

    private void send(int request, long born, Client client) {
        Visit visit = Visit.arrive(born, Budget.of(plan.requests().get(request).slo().sloNs()), 0);
        progressNanos = Deadlines.now();
        try (Deadlines.Scope scope = Deadlines.enter(visit)) {
            client.send(request).whenComplete((answer, failure) -> end(request, failure == null));
        } catch (RuntimeException refused) {
            end(request, false);
        }
    }

    /** The service at {@code stage} has done its work on {@code request}, which is the present thread's. */
    void served(int request, int stage) {
        long now = Deadlines.now();
        Stage times = Deadlines.current().orElseThrow().stage(now);
        synchronized (this) {
            if (passed[request] == stage) {
                passed[request] = stage + 1;
                stageLine(request, stage, "served", now, times.queueNanos(), times.serviceNanos());
            }
        }
    }

    private synchronized void end(int request, boolean answered) {
        long now = Deadlines.now();
        int stage = passed[request];
        if (!answered && stage < plan.settings().stages().size()) {
            stageLine(request, stage, "dropped", now, 0, 0);
        }
        passed[request] = ENDED;
        long elapsed = now - bornNanos(request);
        lines.say("end," + request + (answered ? ",answered," : ",failed,") + elapsed + (answered ? ",1,1" : ",0,1"));
        ended++;
        progressNanos = now;
        notifyAll();
    }

    private void stageLine(int request, int stage, String how, long now, long queueNanos, long serviceNanos) {
        long elapsed = now - bornNanos(request);
        lines.say("stage," + request + ',' + stage + ",0," + how + ',' + elapsed + ',' + queueNanos + ',' + serviceNanos);
    }

    private synchronized void awaitEnds() throws Unable {
        try {
            while (ended < passed.length) {
                long left = progressNanos + PATIENCE_NANOS - Deadlines.now();
                if (left <= 0) {
                    throw new Unable(passed.length - ended + " requests have not ended", "less load: none ended for a minute");
                }
                wait(left / 1_000_000 + 1);
            }
        } catch (InterruptedException interrupted) {
            throw new Unable("interrupted", "again");
        }
    }

    private long bornNanos(int request) {
        return beganNanos + plan.requests().get(request).birthNanos();
    }

    /** Does the work of {@code request} at {@code stage}: holds the present thread for exactly that long. */
    void work(int request, int stage) {
        waitUntil(Deadlines.now() + plan.requests().get(request).serviceNanos()[stage]);
    }

    private static void waitUntil(long nanos) {
        for (long left = nanos - Deadlines.now(); left > 0; left = nanos - Deadlines.now()) {
            LockSupport.parkNanos(left);
        }
    }

    private static final int ENDED = -1;
    /** So long without a request that ends, and the run is given up. */
    private static final long PATIENCE_NANOS = 60_000_000_000L;
}
