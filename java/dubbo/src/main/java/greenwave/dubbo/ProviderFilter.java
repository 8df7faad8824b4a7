package greenwave.dubbo;

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
 * Gives a handler its request's deadline, and learns how long it took.
 *
 * <p>On by default, off with {@code filter=-deadline-provider}. Behind the pool {@code deadline} the request
 * arrived when it was received; behind another one it arrives here, and its wait is not counted.
 */
@Activate(group = CommonConstants.PROVIDER, order = Integer.MIN_VALUE)
public final class ProviderFilter implements Filter, Filter.Listener {
    private static final String KEY = "greenwave.served";

    @Override
    public Result invoke(Invoker<?> invoker, Invocation invocation) {
        long now = Deadlines.now();
        Gate.Arrival received = DubboCall.arrival(invocation);
        Gate.Arrival known = received != null ? received : TripleRequest.begin();
        Gate.Arrival arrival =
                known != null ? known : Servers.arrive(Servers.at(invoker.getUrl()), now, invocation);
        arrival.timer().start(now);
        invocation.put(KEY, arrival);
        try (Deadlines.Scope scope = Deadlines.enter(arrival.timer())) {
            return invoker.invoke(invocation);
        }
    }

    /**
     * The answer is there, on whichever thread: what was not waiting was service. It says where the time went,
     * so that the caller learns what the network took. A failure says nothing of how long the work takes.
     */
    @Override
    public void onResponse(Result response, Invoker<?> invoker, Invocation invocation) {
        if (invocation.get(KEY) instanceof Gate.Arrival arrival) {
            long now = Deadlines.now();
            if (arrival.timer().budget().isLimited()) {
                response.setAttachment(BudgetField.HEADER, BudgetField.write(arrival.timer().leave(now)));
            }
            if (!response.hasException()) {
                Servers.at(invoker.getUrl()).answered(now, arrival);
            }
        }
    }

    /** Nothing was done that could be learned from. */
    @Override
    public void onError(Throwable failure, Invoker<?> invoker, Invocation invocation) {}
}
