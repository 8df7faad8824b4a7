package greenwave.dubbo;

import greenwave.deadline.Visit;
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
    private static final String VISIT = "greenwave.visit";

    @Override
    public Result invoke(Invoker<?> invoker, Invocation invocation) {
        long now = Deadlines.now();
        Call call = Call.of(invocation);
        Visit visit = call != null ? call.visit() : Server.at(invoker.getUrl()).arrive(now, invocation);
        visit.start(now);
        invocation.put(VISIT, visit);
        try (Deadlines.Scope scope = Deadlines.enter(visit)) {
            return invoker.invoke(invocation);
        }
    }

    /**
     * The answer is there, on whichever thread: what was not waiting was service. A failure says nothing of how
     * long the work takes.
     */
    @Override
    public void onResponse(Result response, Invoker<?> invoker, Invocation invocation) {
        if (!response.hasException() && invocation.get(VISIT) instanceof Visit visit) {
            long service = visit.stage(Deadlines.now()).serviceNanos();
            Server.at(invoker.getUrl()).served(Server.kind(invocation), service);
        }
    }

    /** Nothing was done that could be learned from. */
    @Override
    public void onError(Throwable failure, Invoker<?> invoker, Invocation invocation) {}
}
