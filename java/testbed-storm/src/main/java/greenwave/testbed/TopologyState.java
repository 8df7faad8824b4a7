package greenwave.testbed;

import greenwave.deadline.Budget;
import greenwave.deadline.thread.Deadlines;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * State that the topology's bolts share in one process: the plan, the run, and the futures of requests.
 *
 * <p>Requests with negative numbers are for warm-up: they pass all stages without work.
 */
final class TopologyState {
    private static volatile TopologyState instance;

    private final Plan plan;
    private final Run run;
    private final ExternalWork reality;
    private final Queue<Integer> due = new ConcurrentLinkedQueue<>();
    private final List<CompletableFuture<Run.Used>> ends;
    private final CountDownLatch warm = new CountDownLatch(WARM_UPS);

    TopologyState(Plan plan, Run run, ExternalWork reality) {
        this.plan = plan;
        this.run = run;
        this.reality = reality;
        this.ends = Stream.generate(() -> new CompletableFuture<Run.Used>()).limit(plan.requests().size()).toList();
    }

    static TopologyState get() {
        return instance;
    }

    static void set(TopologyState made) {
        instance = made;
    }

    Run run() {
        return run;
    }

    /** Makes the spout emit {@code request}. */
    CompletableFuture<Run.Used> send(int request) {
        due.add(request);
        return ends.get(request);
    }

    /** Next request to emit; null if there is none. */
    Integer next() {
        return due.poll();
    }

    /**
     * Budget of the request, created at its planned time of birth and reduced by the time until the spout
     * emits it.
     */
    Budget budget(List<Object> values) {
        int request = (Integer) values.get(0);
        if (request < 0) {
            return Budget.of(WARM_UP_NANOS);
        }
        long late = Deadlines.now() - run.bornNanos(request);
        return Budget.restored(plan.requests().get(request).slo().sloNs(), Math.max(0, late), List.of());
    }

    /**
     * Does the work of {@code request} at {@code stage}, in a unit that of worker {@code part}, and reports
     * it.
     */
    void work(int request, int stage, int part) {
        List<Plan.Stage> stages = plan.settings().stages();
        run.work(request, stage, part, () -> {
            if (stages.get(stage).parts() > 1) {
                reality.search(part, plan.requests().get(request).query());
            }
            if (stage + 1 == stages.size()) {
                reality.write(request);
            }
        });
        run.served(request, stage, part);
    }

    /** Ends {@code request} with {@code used} of {@code parts} answers; {@code used} is zero if it failed. */
    void end(int request, int used, int parts) {
        if (request < 0) {
            warm.countDown();
        } else if (used == 0) {
            ends.get(request).completeExceptionally(new IllegalStateException("not served"));
        } else {
            ends.get(request).complete(new Run.Used(used, parts));
        }
    }

    /** Sends warm-up requests and waits until all have completed. */
    void warmUp() throws RunnerException, InterruptedException {
        for (int request = 1; request <= WARM_UPS; request++) {
            due.add(-request);
        }
        if (!warm.await(LIMIT_S, TimeUnit.SECONDS)) {
            String what = warm.getCount() + " warming requests did not come through in " + LIMIT_S + " s";
            throw new RunnerException(what, "less load");
        }
    }

    private static final int WARM_UPS = 300;
    private static final long LIMIT_S = 60;
    private static final long WARM_UP_NANOS = 2 * LIMIT_S * 1_000_000_000;
}
