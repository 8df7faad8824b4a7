package greenwave.grpc;

import greenwave.deadline.Gate;
import greenwave.deadline.BudgetValidator;
import greenwave.deadline.Shedding;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.codec.EnvoyTimeout;
import greenwave.deadline.codec.GrpcTimeout;
import greenwave.deadline.thread.Call;
import greenwave.deadline.thread.Deadlines;
import greenwave.deadline.thread.DeadlinePool;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallExecutorSupplier;
import io.grpc.Status;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;

/**
 * An executor for each call, which runs it in deadline order. gRPC asks for the executor when it has received
 * the headers; that is the arrival of the call.
 *
 * <p>gRPC hands an executor the events of a call as they occur. The first event of a call with one request
 * runs at once, on the thread that delivers it: gRPC delivers the request only after that, and {@link
 * ServerSide} does nothing else in it. What waits in the pool is the request, or the start of a call with a
 * stream of requests. If the pool runs an event before the request is complete, the handler is not called
 * yet; a later event calls it. Once the handler is called, the further events of the call go before all
 * waiting calls, since a call that has begun holds memory. The events of a shed call are run too, so that
 * gRPC can end the call; {@link ServerSide} does not call its handler.
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
                new BudgetValidator.Received(headers.get(BUDGET), headers.get(GRPC), headers.get(ENVOY));
        return gate.arrive(Deadlines.now(), received, call.getMethodDescriptor().getFullMethodName());
    }

    /** The events of one call. */
    static final class Events implements Executor {
        private static final ThreadLocal<Events> CURRENT = new ThreadLocal<>();

        private final CallExecutors server;
        private final Gate.Arrival arrival;
        private final Context context;
        private volatile boolean startsHere;
        private volatile boolean begun;
        private volatile Status refused;

        Events(CallExecutors server, Gate.Arrival arrival, Context context, boolean startsHere) {
            this.server = server;
            this.arrival = arrival;
            this.context = context;
            this.startsHere = startsHere;
        }

        /** The call whose events the present thread runs; null on a thread of another executor. */
        static Events current() {
            return CURRENT.get();
        }

        Gate.Arrival arrival() {
            return arrival;
        }

        /** Reason against calling the handler; null if it may be called. */
        Status refused() {
            return refused;
        }

        /** Marks the call as begun: from now on it cannot be shed. */
        void begin() {
            begun = true;
        }

        @Override
        public void execute(Runnable events) {
            if (startsHere || refused != null) {
                startsHere = false;
                run(events);
            } else if (begun) {
                server.pool.execute(() -> run(events));
            } else {
                server.pool.execute(new Turn(events));
            }
        }

        private void run(Runnable events) {
            Events before = CURRENT.get();
            CURRENT.set(this);
            try {
                events.run();
            } finally {
                if (before == null) {
                    CURRENT.remove();
                } else {
                    CURRENT.set(before);
                }
            }
        }

        private final class Turn extends Call {
            private final Runnable events;

            Turn(Runnable events) {
                super(Deadlines.now(), server.gate, arrival);
                this.events = events;
            }

            /** Runs the events; if the client has disconnected, the handler is refused. */
            @Override
            public void run() {
                if (context.isCancelled()) {
                    server.cancelled.incrementAndGet();
                    refused = Contexts.statusFromCancelled(context);
                }
                Events.this.run(events);
            }

            @Override
            protected void answer(Shedding.Reason reason) {
                boolean full = reason == Shedding.Reason.FULL;
                Status status = full ? Status.RESOURCE_EXHAUSTED : Status.DEADLINE_EXCEEDED;
                refused = status.withDescription(arrival.method() + " was not served: " + reason);
                Events.this.run(events);
            }
        }
    }

    static final Metadata.Key<String> BUDGET = key(BudgetField.HEADER);
    private static final Metadata.Key<String> GRPC = key(GrpcTimeout.HEADER);
    private static final Metadata.Key<String> ENVOY = key(EnvoyTimeout.HEADER);

    private static Metadata.Key<String> key(String name) {
        return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    }
}
