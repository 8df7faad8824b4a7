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
 * An executor for each call, by its deadline: gRPC asks when the headers are there, and that is its arrival.
 *
 * <p>gRPC gives an executor the events of a call as they come. A call with one request is started where that
 * is asked for, since only then does gRPC deliver it, and {@link ServerSide} does no more there; what waits for
 * its turn in the pool is the request, or the start of a call whose requests are a stream. A turn that comes
 * before the request is complete passes, and there will be another. Once the handler is called its events go
 * first: what has begun holds memory. A call that is shed still has its events run, so that gRPC's own state
 * ends as ever; {@link ServerSide} sees to it that no handler does.
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

    /** Calls that their clients cancelled in the queue. */
    long cancelled() {
        return cancelled.get();
    }

    /** True if {@code call} has one request, after which its handler is called. */
    static boolean once(ServerCall<?, ?> call) {
        return call.getMethodDescriptor().getType().clientSendsOneMessage();
    }

    /** {@code call} has arrived with {@code headers}, now. */
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

        /** Those that the present thread runs; null on a thread of another executor. */
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

        /** The handler is called: nothing is shed from now on. */
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

            /** Starts the service, unless the client has disconnected. */
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
