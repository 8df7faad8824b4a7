package greenwave.grpc;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Gate;
import greenwave.deadline.Limits;
import greenwave.deadline.thread.DeadlinePool;
import io.grpc.ServerBuilder;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The threads that serve a server's calls by what is left of their deadlines.
 *
 * <pre>{@code
 * DeadlineServer deadlines = new DeadlineServer(Limits.DEFAULT, DeadlineQueue.Settings.DEFAULT, 8);
 * ServerBuilder<?> builder = Grpc.newServerBuilderForPort(50051, credentials).addService(service);
 * deadlines.on(builder); // last, so that no other interceptor comes before it
 * Server server = builder.build().start();
 * }</pre>
 *
 * <p>Servers may share one. To be closed after them.
 */
public final class DeadlineServer implements AutoCloseable {
    private final Gate gate;
    private final DeadlinePool pool;
    private final CallExecutors executors;

    /** {@code threads} (1 and more) behind a queue with {@code queue}, for calls that get what {@code limits} say. */
    public DeadlineServer(Limits limits, DeadlineQueue.Settings queue, int threads) {
        gate = new Gate(limits, queue);
        AtomicInteger made = new AtomicInteger();
        // No bound is needed for what is no turn: calls that have begun, each with one task at most.
        pool = new DeadlinePool(gate, threads, Integer.MAX_VALUE, task -> {
            Thread thread = new Thread(task, "grpc-deadline-" + made.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        });
        executors = new CallExecutors(gate, pool);
    }

    /**
     * Has {@code builder}'s server serve by deadline. Sets its executor: the lookup of methods and the
     * listeners of a context that is cancelled run on the transport's threads, all else on the pool's; other
     * interceptors in a call's turn.
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

    /** Calls that wait for a thread. */
    public int waiting() {
        return pool.getQueue().size();
    }

    /** Calls that their clients cancelled in the queue; not served. */
    public long cancelled() {
        return executors.cancelled();
    }

    /** Ends the threads; calls that wait are not answered. */
    @Override
    public void close() {
        pool.shutdownNow();
    }
}
