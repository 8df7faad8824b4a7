package greenwave.grpc;

import greenwave.deadline.Budget;
import greenwave.deadline.Cause;
import greenwave.deadline.CauseCounter;
import greenwave.deadline.Peers;
import greenwave.deadline.StageTimer;
import greenwave.deadline.codec.BadBudget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientStreamTracer;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Sends the remaining budget of a request along with the calls that it makes.
 *
 * <p>Inside a request (one of the thread or of gRPC's context), a call gets the request's remaining budget
 * less the estimated network delay C to the peer, or the deadline of its own call options if that is sooner.
 * It is also set as gRPC's deadline, so gRPC cancels the call when it passes. A call without remaining budget
 * is not sent. Outside a request, a call with a deadline gets a new budget, and one without a deadline is
 * sent unchanged. Callbacks of the call, those chained to its future included, have the caller's deadline.
 * One instance may serve several calls and channels.
 */
public final class DeadlineClient implements ClientInterceptor {
    /**
     * A call with this option neither carries a budget nor is limited by one, and gRPC's context does not
     * limit it either; it is not cancelled when its caller is.
     */
    public static final CallOptions.Key<Boolean> WITHOUT_BUDGET =
            CallOptions.Key.createWithDefault("greenwave-without-budget", false);

    private final Peers peers = new Peers();
    private final CauseCounter causes = new CauseCounter();

    /**
     * Number of calls with a budget that ended with {@code cause}: refused here or by the called service, or failed.
     * {@link Causes#of(Throwable)} has the cause of one.
     */
    public long failures(Cause cause) {
        return causes.count(cause);
    }

    /** Estimated network delay C to {@code authority}, in nanoseconds. */
    public long oneWayNanos(String authority) {
        return peers.oneWayNanos(authority);
    }

    @Override
    public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
        Context context = Context.current();
        if (options.getOption(WITHOUT_BUDGET)) {
            Context own = context.fork();
            Context before = own.attach();
            try {
                return next.newCall(method, options);
            } finally {
                own.detach(before);
            }
        }
        StageTimer timer = Deadlines.current().orElseGet(() -> ServerSide.TIMER.get(context));
        long timeout = Math.min(leftNanos(options.getDeadline()), leftNanos(context.getDeadline()));
        boolean limited = timer != null && timer.budget().isLimited();
        if (!limited && timeout == Long.MAX_VALUE) {
            return next.newCall(method, options);
        }
        long now = Deadlines.now();
        Budget beforeNetwork = !limited ? Budget.of(timeout) : timer.outgoing(now).capped(timeout);
        Budget budget = peers.delayed(now, beforeNetwork, next.authority());
        if (limited && budget.remaining().isMissed()) {
            boolean some = !beforeNetwork.remaining().isMissed();
            Cause cause = some ? Cause.INFEASIBLE : Cause.EXPIRED;
            String why = some ? "the network takes longer than the caller has left" : "the caller's deadline has passed";
            causes.record(cause, next.authority(), "call not sent");
            return new NotSent<>(Causes.ending(cause, method.getFullMethodName() + " was not called: " + why));
        }
        long left = budget.remaining().leftNanos();
        Attempts attempts = new Attempts(now, budget);
        CallOptions limitedOptions =
                options.withDeadlineAfter(left, TimeUnit.NANOSECONDS).withStreamTracerFactory(attempts);
        return new Sent<>(next.newCall(method, limitedOptions), timer, attempts, next.authority());
    }

    private static long leftNanos(Deadline deadline) {
        return deadline == null ? Long.MAX_VALUE : Math.max(0, deadline.timeRemaining(TimeUnit.NANOSECONDS));
    }

    /**
     * The attempts of a call, which gRPC makes below all interceptors: the first one, retries, and hedges. Each carries
     * the time left then.
     */
    private static final class Attempts extends ClientStreamTracer.Factory {
        private final long sentNanos;
        private final Budget budget;
        private final AtomicInteger made = new AtomicInteger();
        private volatile long lastNanos;

        Attempts(long sentNanos, Budget budget) {
            this.sentNanos = sentNanos;
            this.budget = budget;
        }

        @Override
        public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
            long now = Deadlines.now();
            made.incrementAndGet();
            lastNanos = now;
            headers.discardAll(CallExecutors.BUDGET);
            headers.put(CallExecutors.BUDGET, BudgetField.write(budget.delayed(now - sentNanos)));
            return new ClientStreamTracer() {};
        }
    }

    /** A call whose {@code attempts} carry its budget. */
    private final class Sent<Q, R> extends SimpleForwardingClientCall<Q, R> {
        private final StageTimer timer;
        private final Attempts attempts;
        private final String authority;

        Sent(ClientCall<Q, R> call, StageTimer timer, Attempts attempts, String authority) {
            super(call);
            this.timer = timer;
            this.attempts = attempts;
            this.authority = authority;
        }

        @Override
        public void start(Listener<R> listener, Metadata headers) {
            super.start(new Told<>(listener, this), headers);
        }

        void fail(Cause cause) {
            causes.record(cause, authority, "call failed");
        }

        /** The time of several attempts says nothing about the network. */
        private void learn(Metadata trailers) {
            String answered = trailers.get(CallExecutors.BUDGET);
            if (answered != null && attempts.made.get() == 1) {
                try {
                    long now = Deadlines.now();
                    long waited = now - attempts.lastNanos;
                    peers.record(now, authority, waited, attempts.budget, BudgetField.parse(answered));
                } catch (BadBudget unreadable) {
                    // Treated like an answer without a budget.
                }
            }
        }
    }

    /** Events of a call for its caller, with the caller's deadline. */
    private static final class Told<R> extends SimpleForwardingClientCallListener<R> {
        private final DeadlineClient.Sent<?, R> sent;

        Told(ClientCall.Listener<R> caller, DeadlineClient.Sent<?, R> sent) {
            super(caller);
            this.sent = sent;
        }

        @Override
        public void onMessage(R message) {
            deliver(() -> super.onMessage(message));
        }

        @Override
        public void onHeaders(Metadata headers) {
            deliver(() -> super.onHeaders(headers));
        }

        @Override
        public void onReady() {
            deliver(super::onReady);
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            sent.learn(trailers);
            Cause cause = Causes.of(status, trailers);
            if (cause != null) {
                Causes.write(trailers, cause);
                sent.fail(cause);
            }
            deliver(() -> super.onClose(status, trailers));
        }

        private void deliver(Runnable event) {
            try (Deadlines.Scope scope = Deadlines.enter(sent.timer)) {
                event.run();
            }
        }
    }

    /** A call that fails when it is started. */
    private static final class NotSent<Q, R> extends ClientCall<Q, R> {
        private final Causes.Ending ending;

        NotSent(Causes.Ending ending) {
            this.ending = ending;
        }

        @Override
        public void start(Listener<R> listener, Metadata headers) {
            listener.onClose(ending.status(), ending.trailers());
        }

        @Override
        public void request(int messages) {}

        @Override
        public void cancel(String message, Throwable cause) {}

        @Override
        public void halfClose() {}

        @Override
        public void sendMessage(Q message) {}
    }
}
