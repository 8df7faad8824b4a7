package greenwave.grpc;

import greenwave.deadline.Gate;
import greenwave.deadline.StageTimer;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * Sets a handler's deadline, records service times, and answers shed calls.
 *
 * <p>The handler of a call with one request is called when the request is complete, that of a stream at once.
 * While gRPC calls the handler, the deadline is that of the thread; it is also in gRPC's context, for
 * applications that pass that on.
 */
final class ServerSide implements ServerInterceptor {
    /** The timer, in gRPC's context. */
    static final Context.Key<StageTimer> TIMER = Context.key("greenwave-timer");

    private final Gate gate;

    ServerSide(Gate gate) {
        this.gate = gate;
    }

    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
            ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
        CallExecutors.Events events = CallExecutors.Events.running();
        Gate.Arrival arrival = events == null ? CallExecutors.arrive(gate, call, headers) : events.arrival();
        Counted<Q, R> counted = new Counted<>(call, arrival);
        if (CallExecutors.once(call)) {
            call.request(2); // One more than there may be, so that gRPC finds out.
            return new Once<>(() -> start(arrival, counted, headers, next), counted, events);
        }
        if (events != null && events.refusal() != null) {
            counted.refuse(events.refusal());
            return new ServerCall.Listener<>() {};
        }
        begin(events, arrival);
        return start(arrival, counted, headers, next);
    }

    /** Calls the handler, and the interceptors before it, when the pool serves the call. */
    private static <Q, R> ServerCall.Listener<Q> start(
            Gate.Arrival arrival, ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
        Context context = Context.current().withValue(TIMER, arrival.timer());
        try (Deadlines.Scope scope = Deadlines.enter(arrival.timer())) {
            return new Told<>(Contexts.interceptCall(context, call, headers, next), arrival.timer());
        }
    }

    private static void begin(CallExecutors.Events events, Gate.Arrival arrival) {
        if (events != null) {
            events.begin();
        }
        arrival.timer().start(Deadlines.now());
    }

    /** A call whose service time is recorded when it is answered. */
    private final class Counted<Q, R> extends SimpleForwardingServerCall<Q, R> {
        private final Gate.Arrival arrival;
        private boolean refused;

        Counted(ServerCall<Q, R> call, Gate.Arrival arrival) {
            super(call);
            this.arrival = arrival;
        }

        /** Ends the call without its handler. */
        void refuse(Causes.Ending ending) {
            refused = true;
            close(ending.status(), ending.trailers());
        }

        /**
         * Adds the times of all stages to the trailers, from which the client computes the network delay. A cause that
         * the handler passes on comes from a service that it called.
         */
        @Override
        public void close(Status status, Metadata trailers) {
            long now = Deadlines.now();
            if (status.isOk()) {
                gate.answered(now, arrival);
            } else if (!refused && Causes.read(trailers) != null) {
                gate.upstream(arrival, Causes.read(trailers));
            } else if (!refused) {
                gate.failed(now, arrival);
            }
            trailers.discardAll(CallExecutors.BUDGET);
            if (arrival.timer().budget().isLimited()) {
                trailers.put(CallExecutors.BUDGET, BudgetField.write(arrival.timer().leave(now)));
            }
            super.close(status, trailers);
        }

        /** Ignored for a call with one request, which was requested when the call was started. */
        @Override
        public void request(int messages) {
            if (!CallExecutors.once(this)) {
                super.request(messages);
            }
        }
    }

    /**
     * A call with one request; its handler is called once the request is complete and the pool serves the
     * call.
     */
    private static final class Once<Q> extends ServerCall.Listener<Q> {
        private final Supplier<ServerCall.Listener<Q>> start;
        private final Counted<Q, ?> call;
        private final CallExecutors.Events events;
        private final List<Q> requests = new ArrayList<>(1);
        private boolean ready;
        private ServerCall.Listener<Q> handler;

        Once(Supplier<ServerCall.Listener<Q>> start, Counted<Q, ?> call, CallExecutors.Events events) {
            this.start = start;
            this.call = call;
            this.events = events;
        }

        @Override
        public void onMessage(Q message) {
            requests.add(message);
        }

        @Override
        public void onHalfClose() {
            if (events != null && events.refusal() != null) {
                call.refuse(events.refusal());
                return;
            }
            begin(events, call.arrival);
            handler = start.get();
            requests.forEach(handler::onMessage);
            if (ready) {
                handler.onReady();
            }
            handler.onHalfClose();
        }

        @Override
        public void onReady() {
            ready = true;
            if (handler != null) {
                handler.onReady();
            }
        }

        @Override
        public void onCancel() {
            if (handler != null) {
                handler.onCancel();
            }
        }

        @Override
        public void onComplete() {
            if (handler != null) {
                handler.onComplete();
            }
        }
    }

    /** Events of a call for its handler, with the call's deadline. */
    private static final class Told<Q> extends SimpleForwardingServerCallListener<Q> {
        private final StageTimer timer;

        Told(ServerCall.Listener<Q> handler, StageTimer timer) {
            super(handler);
            this.timer = timer;
        }

        @Override
        public void onMessage(Q message) {
            deliver(() -> super.onMessage(message));
        }

        @Override
        public void onHalfClose() {
            deliver(super::onHalfClose);
        }

        @Override
        public void onReady() {
            deliver(super::onReady);
        }

        @Override
        public void onCancel() {
            deliver(super::onCancel);
        }

        @Override
        public void onComplete() {
            deliver(super::onComplete);
        }

        private void deliver(Runnable event) {
            try (Deadlines.Scope scope = Deadlines.enter(timer)) {
                event.run();
            }
        }
    }
}
