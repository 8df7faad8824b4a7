package greenwave.grpc;

import greenwave.deadline.Gate;
import greenwave.deadline.BudgetValidator;
import greenwave.deadline.Shedding;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.codec.EnvoyTimeout;
import greenwave.deadline.codec.GrpcTimeout;
import greenwave.deadline.thread.CallEvents;
import greenwave.deadline.thread.Deadlines;
import greenwave.deadline.thread.DeadlinePool;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallExecutorSupplier;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;

/**
 * An executor for each call, which runs it in deadline order. gRPC asks for the executor when it has received
 * the headers; that is the arrival of the call.
 *
 * <p>gRPC hands an executor the events of a call as they occur. The first event of a call with one request
 * runs at once, on the thread that delivers it: gRPC delivers the request only after that, and {@link
 * ServerSide} does nothing else in it. What waits in the pool ({@link CallEvents}) is the request, or the start of a
 * call with a stream of requests. {@link ServerSide} does not call the handler of a shed call.
 */
final class CallExecutors implements ServerCallExecutorSupplier {
    private final Gate gate;
    private final DeadlinePool pool;
    private final AtomicLong cancelled = new AtomicLong();

    CallExecutors(Gate gate, DeadlinePool pool) {
        this.gate = gate;
        this.pool = pool;
    }

    @Override
    public <Q, R> Executor getExecutor(ServerCall<Q, R> call, Metadata headers) {
        return new Events(this, arrive(gate, call, headers), Context.current(), once(call));
    }

    /** Number of calls that their clients cancelled while they were queued. */
    long cancelled() {
        return cancelled.get();
    }

    /** True if {@code call} has one request, after which its handler is called. */
    static boolean once(ServerCall<?, ?> call) {
        return call.getMethodDescriptor().getType().clientSendsOneMessage();
    }

    /** Registers the arrival of {@code call} with {@code headers}, now. */
    static Gate.Arrival arrive(Gate gate, ServerCall<?, ?> call, Metadata headers) {
        BudgetValidator.Received received =
                new BudgetValidator.Received(lines(headers, BUDGET), lines(headers, GRPC), lines(headers, ENVOY));
        return gate.arrive(Deadlines.now(), received, call.getMethodDescriptor().getFullMethodName());
    }

    private static Iterable<String> lines(Metadata headers, Metadata.Key<String> key) {
        Iterable<String> lines = headers.getAll(key);
        return lines == null ? List.of() : lines;
    }

    /** The events of one call. */
    static final class Events extends CallEvents<Causes.Ending> {
        private final Gate gate;
        private final AtomicLong cancelled;
        private final Context context;
        private volatile boolean startsHere;

        Events(CallExecutors server, Gate.Arrival arrival, Context context, boolean startsHere) {
            super(server.pool, server.gate, arrival);
            this.gate = server.gate;
            this.cancelled = server.cancelled;
            this.context = context;
            this.startsHere = startsHere;
        }

        /** The call whose events the present thread runs; null on a thread of another executor. */
        static Events running() {
            return current() instanceof Events events ? events : null;
        }

        @Override
        public void execute(Runnable events) {
            if (startsHere) {
                startsHere = false;
                run(events);
            } else {
                super.execute(events);
            }
        }

        /** If the client has disconnected, the handler is refused. */
        @Override
        protected Causes.Ending refuseInTurn() {
            if (!context.isCancelled()) {
                return null;
            }
            cancelled.incrementAndGet();
            gate.cancelled(arrival());
            return new Causes.Ending(Contexts.statusFromCancelled(context), new Metadata());
        }

        @Override
        protected Causes.Ending refuse(Shedding.Reason reason, String text) {
            return Causes.ending(reason.cause(), text);
        }
    }

    static final Metadata.Key<String> BUDGET = key(BudgetField.HEADER);
    private static final Metadata.Key<String> GRPC = key(GrpcTimeout.HEADER);
    private static final Metadata.Key<String> ENVOY = key(EnvoyTimeout.HEADER);

    static Metadata.Key<String> key(String name) {
        return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    }
}
