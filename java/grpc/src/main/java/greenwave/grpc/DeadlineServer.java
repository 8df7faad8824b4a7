package greenwave.grpc;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Gate;
import greenwave.deadline.Limits;
import greenwave.deadline.thread.DeadlinePool;
import io.grpc.ServerBuilder;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Thread pool that serves a server's calls by remaining budget.
 *
 * <pre>{@code
 * DeadlineServer deadlines = new DeadlineServer(Limits.DEFAULT, DeadlineQueue.Settings.DEFAULT, 8);
 * ServerBuilder<?> builder = Grpc.newServerBuilderForPort(50051, credentials).addService(service);
 * deadlines.on(builder); // last, so that no other interceptor comes before it
 * Server server = builder.build().start();
 * }</pre>
 *
 * <p>Several servers may share one instance. Close it after them.
 */
public final class DeadlineServer implements AutoCloseable {
    private final Gate gate;
    private final DeadlinePool pool;
    private final CallExecutors executors;

    /**
     * A pool of {@code threads} (1 or more) behind a queue with the settings {@code queue}; budgets are
     * granted within {@code limits}.
     */
    public DeadlineServer(Limits limits, DeadlineQueue.Settings queue, int threads) {
        this(new Gate(limits, queue), threads);
    }

    /** A pool of {@code threads} (1 or more) behind {@code gate}, such as {@link Gate#dryRun}. */
    public DeadlineServer(Gate gate, int threads) {
        this.gate = gate;
        AtomicInteger made = new AtomicInteger();
        // Other tasks need no bound: they belong to calls that have begun, at most one each.
        pool = new DeadlinePool(gate, threads, Integer.MAX_VALUE, task -> {
            Thread thread = new Thread(task, "grpc-deadline-" + made.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        });
        executors = new CallExecutors(gate, pool);
    }

    /**
     * Makes the server of {@code builder} serve by deadline. Sets its executor: the lookup of methods and the
     * listeners of a cancelled context run on the transport's threads, everything else on the pool's.
     * Interceptors added before this call run when the pool serves the call.
     */
    public void on(ServerBuilder<?> builder) {
        builder.directExecutor();
        builder.callExecutor(executors);
        builder.intercept(new ServerSide(gate));
    }

    /** Granted budgets, estimates and counters. */
    public Gate gate() {
        return gate;
    }

    /** Number of calls that wait for a thread. */
    public int waiting() {
        return pool.getQueue().size();
    }

    /** Number of calls that their clients cancelled while they were queued; they were not served. */
    public long cancelled() {
        return executors.cancelled();
    }

    /** Ends the threads. Waiting calls are not answered. */
    @Override
    public void close() {
        pool.shutdownNow();
    }
}
