package greenwave.testbed;

import greenwave.deadline.Budget;
import greenwave.deadline.Stage;
import greenwave.deadline.StageTimer;
import greenwave.deadline.thread.Deadlines;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;

/**
 * One run of a plan: sends each request at its birth (open loop) and reports its outcome.
 *
 * <p>Times of birth count from {@link #begin}. Nothing is reported of a request after its failure: a service
 * that finishes a request after its caller gave up is ignored. Thread-safe.
 */
final class Run {
    private final Plan plan;
    private final Lines lines;
    /**
     * Index of the first part of each stage among all parts of a request; the last element is their number.
     */
    private final int[] firsts;
    /** Parts reported so far: index is the request's number times the number of all parts, plus the part's. */
    private final BitSet reported = new BitSet();
    private final State[] states;

    private int ended;
    private long beganNanos;
    private volatile long progressNanos;

    Run(Plan plan, Lines lines) {
        this.plan = plan;
        this.lines = lines;
        this.states = new State[plan.requests().size()];
        Arrays.fill(states, State.UNDERWAY);
        List<Plan.Stage> stages = plan.settings().stages();
        this.firsts = new int[stages.size() + 1];
        for (int stage = 0; stage < stages.size(); stage++) {
            firsts[stage + 1] = firsts[stage] + stages.get(stage).parts();
        }
    }

    /** Sender of a request to the first service, on a thread that has its deadline. */
    @FunctionalInterface
    interface Client {
        /**
         * The request is answered when the future completes (of a unit with {@link Used}), and failed if it
         * completes exceptionally or this method throws.
         */
        CompletableFuture<?> send(int request);
    }

    /** Number of parts in an answer, {@code parts}, and number of them that were {@code used}. */
    record Used(int used, int parts) {}

    private enum State {
        UNDERWAY,
        ANSWERED,
        FAILED
    }

    /** Prints {@code ready}; times of birth count from now. */
    void begin() {
        lines.print("ready");
        beganNanos = Deadlines.now();
        progressNanos = beganNanos;
    }

    /**
     * Sends all requests through {@code client} and returns when all have ended.
     *
     * @throws RunnerException if none has ended for a minute
     */
    void all(Client client) throws RunnerException {
        long late = 0;
        for (int request = 0; request < states.length; request++) {
            long born = bornNanos(request);
            waitUntil(born);
            late = Math.max(late, Deadlines.now() - born);
            send(request, born, client);
        }
        awaitEnds();
        lines.print("late," + late);
    }

    private void send(int request, long born, Client client) {
        StageTimer timer = StageTimer.arrive(born, Budget.of(plan.requests().get(request).slo().sloNs()), 0);
        progressNanos = Deadlines.now();
        try (Deadlines.Scope scope = Deadlines.enter(timer)) {
            client.send(request).whenComplete((answer, failure) -> {
                Used used = answer instanceof Used unit ? unit : new Used(1, 1);
                end(request, failure == null ? used : null);
            });
        } catch (RuntimeException refused) {
            end(request, null);
        }
    }

    /**
     * Reports that the service at {@code stage} has finished {@code request}, the request of the present
     * thread.
     */
    void served(int request, int stage) {
        served(request, stage, 0);
    }

    /** The same for worker {@code part} of the unit at {@code stage}. */
    void served(int request, int stage, int part) {
        long now = Deadlines.now();
        Stage times = Deadlines.current().orElseThrow().stage(now);
        stageLine(request, stage, part, "served", now, times.queueNanos(), times.serviceNanos());
    }

    /** Reports that {@code request} was dropped. */
    void dropped(int request, int stage, int part) {
        stageLine(request, stage, part, "dropped", Deadlines.now(), 0, 0);
    }

    private synchronized void end(int request, Used used) {
        long now = Deadlines.now();
        if (used == null) {
            dropRest(request);
        }
        states[request] = used == null ? State.FAILED : State.ANSWERED;
        long elapsed = now - bornNanos(request);
        String parts = used == null ? ",0,1" : "," + used.used + ',' + used.parts;
        lines.print("end," + request + (used == null ? ",failed," : ",answered,") + elapsed + parts);
        ended++;
        progressNanos = now;
        notifyAll();
    }

    /** Reports the unreported parts of the stage at which {@code request} failed. */
    private void dropRest(int request) {
        for (int stage = 0; stage + 1 < firsts.length; stage++) {
            boolean isWhole = true;
            for (int part = 0; part < firsts[stage + 1] - firsts[stage]; part++) {
                isWhole &= reported.get(place(request, stage, part));
                dropped(request, stage, part);
            }
            if (!isWhole) {
                return;
            }
        }
    }

    private synchronized void stageLine(
            int request, int stage, int part, String how, long now, long queueNanos, long serviceNanos) {
        int place = place(request, stage, part);
        if (states[request] == State.FAILED || reported.get(place)) {
            return;
        }
        reported.set(place);
        long elapsed = now - bornNanos(request);
        lines.print("stage," + request + ',' + stage + ',' + part + ',' + how + ',' + elapsed + ',' + queueNanos + ','
                + serviceNanos);
    }

    private int place(int request, int stage, int part) {
        return request * firsts[firsts.length - 1] + firsts[stage] + part;
    }

    private synchronized void awaitEnds() throws RunnerException {
        try {
            while (ended < states.length) {
                long left = progressNanos + PROGRESS_TIMEOUT_NANOS - Deadlines.now();
                if (left <= 0) {
                    throw new RunnerException(states.length - ended + " requests have not ended", "less load: none ended for a minute");
                }
                wait(left / 1_000_000 + 1);
            }
        } catch (InterruptedException interrupted) {
            throw new RunnerException("interrupted", "again");
        }
    }

    /** Planned send time of {@code request}. */
    long bornNanos(int request) {
        return beganNanos + plan.requests().get(request).birthNanos();
    }

    /**
     * Does the work of {@code request} at {@code stage}: occupies the present thread for exactly its service
     * time.
     */
    void work(int request, int stage) {
        work(request, stage, 0, () -> {});
    }

    /** Does the work of worker {@code part} of the unit at {@code stage}, {@code within} being done of it. */
    void work(int request, int stage, int part, Runnable within) {
        long until = Deadlines.now() + plan.requests().get(request).serviceNanos()[firsts[stage] + part];
        within.run();
        waitUntil(until);
    }

    private static void waitUntil(long nanos) {
        for (long left = nanos - Deadlines.now(); left > 0; left = nanos - Deadlines.now()) {
            LockSupport.parkNanos(left);
        }
    }

    /** Time without an ended request after which the run is aborted. */
    private static final long PROGRESS_TIMEOUT_NANOS = 60_000_000_000L;
}
