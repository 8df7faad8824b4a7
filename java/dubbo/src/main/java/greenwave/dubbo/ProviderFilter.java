package greenwave.dubbo;

import greenwave.deadline.Cause;
import greenwave.deadline.Gate;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.common.extension.Activate;
import org.apache.dubbo.rpc.Filter;
import org.apache.dubbo.rpc.Invocation;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.Result;

/**
 * Sets a handler's deadline and records service times.
 *
 * <p>On by default, off with {@code filter=-deadline-provider}. With the pool {@code deadline} the arrival of
 * a request is its receipt; with another pool it is the call of this filter, so the wait in that pool is not
 * counted.
 */
@Activate(group = CommonConstants.PROVIDER, order = Integer.MIN_VALUE)
public final class ProviderFilter implements Filter, Filter.Listener {
    private static final String KEY = "greenwave.served";

    @Override
    public Result invoke(Invoker<?> invoker, Invocation invocation) {
        long now = Deadlines.now();
        Gate.Arrival received = DubboCall.arrival(invocation);
        Gate.Arrival known = received != null ? received : TripleRequest.beginCurrent();
        Gate.Arrival arrival =
                known != null ? known : Servers.arrive(Servers.at(invoker.getUrl()), now, invocation);
        arrival.timer().start(now);
        invocation.put(KEY, arrival);
        try (Deadlines.Scope scope = Deadlines.enter(arrival.timer())) {
            return invoker.invoke(invocation);
        }
    }

    /**
     * Called when there is an answer, on any thread. All time outside the queue counts as service. The answer
     * carries the times of all stages, from which the caller computes the network delay. The time of a
     * failure is not recorded; one of a call that the handler made is counted by its cause.
     */
    @Override
    public void onResponse(Result response, Invoker<?> invoker, Invocation invocation) {
        if (invocation.get(KEY) instanceof Gate.Arrival arrival) {
            long now = Deadlines.now();
            if (arrival.timer().budget().isLimited()) {
                response.setAttachment(BudgetField.HEADER, BudgetField.write(arrival.timer().leave(now)));
            }
            Gate gate = Servers.at(invoker.getUrl());
            Cause cause = response.hasException() ? Causes.of(response.getException()) : null;
            if (cause != null) {
                response.setAttachment(Cause.HEADER, cause.word());
                gate.upstream(arrival, cause);
            } else if (response.hasException()) {
                gate.failed(now, arrival);
            } else {
                gate.answered(now, arrival);
            }
        }
    }

    /** An error is not recorded. */
    @Override
    public void onError(Throwable failure, Invoker<?> invoker, Invocation invocation) {}
}
