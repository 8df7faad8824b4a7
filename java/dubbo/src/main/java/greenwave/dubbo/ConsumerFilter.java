package greenwave.dubbo;

import greenwave.deadline.Budget;
import greenwave.deadline.Cause;
import greenwave.deadline.CauseCounter;
import greenwave.deadline.Peers;
import greenwave.deadline.Shedding;
import greenwave.deadline.StageTimer;
import greenwave.deadline.codec.BadBudget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.common.extension.Activate;
import org.apache.dubbo.rpc.AsyncRpcResult;
import org.apache.dubbo.rpc.Filter;
import org.apache.dubbo.rpc.Invocation;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.Result;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.support.RpcUtils;

/**
 * Sends the deadline of the request that makes a call along with the call.
 *
 * <p>On by default, off with {@code filter=-deadline-consumer}. A call outside any request gets a new budget
 * with Dubbo's timeout as its deadline. A call inside a request gets the remaining budget, or Dubbo's timeout
 * if that is shorter, and is waited for no longer. The budget that is sent is less by the estimated network
 * delay C to the peer; without remaining budget the call is not sent. For a reference with the parameter
 * {@code deadline.shedding} set to {@code none}, calls are always sent and waited for up to Dubbo's timeout;
 * they only carry the budget. Callbacks chained to a call's future have the caller's deadline.
 */
@Activate(group = CommonConstants.CONSUMER, order = Integer.MIN_VALUE)
public final class ConsumerFilter implements Filter, Filter.Listener {
    private static final String KEY = "greenwave.sent";

    private static final CauseCounter CAUSES = new CauseCounter();

    private final Peers peers = new Peers();

    @Override
    public Result invoke(Invoker<?> invoker, Invocation invocation) {
        long now = Deadlines.now();
        long timeoutMs = timeoutMs(invoker, invocation);
        StageTimer timer = Deadlines.current().orElse(null);
        boolean limited = timer != null && timer.budget().isLimited();
        Budget caller = limited ? timer.outgoing(now) : Budget.of(timeoutMs * NANOS_IN_MS);
        Budget beforeNetwork = caller.capped(timeoutMs * NANOS_IN_MS);
        Budget budget = peers.delayed(now, beforeNetwork, invoker.getUrl().getAddress());
        boolean sheds = Servers.shedding(invoker.getUrl()) != Shedding.NONE;
        if (sheds && limited && budget.remaining().isMissed()) {
            boolean some = !beforeNetwork.remaining().isMissed();
            Cause cause = some ? Cause.INFEASIBLE : Cause.EXPIRED;
            String why = some ? "the network takes longer than the caller has left" : "the caller's deadline has passed";
            CAUSES.record(cause, invoker.getUrl().getAddress(), "call not sent");
            String text = Servers.method(invocation) + " was not called: " + why;
            throw new RpcException(RpcException.TIMEOUT_TERMINATE, Causes.text(text, cause));
        }
        long leftMs = sheds ? (beforeNetwork.remaining().leftNanos() + NANOS_IN_MS - 1) / NANOS_IN_MS : timeoutMs;
        invocation.setAttachment(BudgetField.HEADER, BudgetField.write(budget));
        invocation.setAttachment(CommonConstants.TIMEOUT_KEY, Long.toString(Math.min(timeoutMs, leftMs)));
        invocation.put(KEY, new Sent(now, budget));
        Result result = invoker.invoke(invocation);
        if (timer != null && result instanceof AsyncRpcResult async && !async.getResponseFuture().isDone()) {
            async.setResponseFuture(Deadlines.carry(async.getResponseFuture()));
        }
        return result;
    }

    /**
     * Number of calls of this process that ended with {@code cause}: refused here or by the called service, or failed.
     * {@link Causes#of} has the cause of one.
     */
    public static long failures(Cause cause) {
        return CAUSES.count(cause);
    }

    private static void record(Throwable failure, Invoker<?> invoker) {
        Cause cause = Causes.of(failure);
        if (cause != null) {
            CAUSES.record(cause, invoker.getUrl().getAddress(), "call failed");
        }
    }

    private record Sent(long nowNanos, Budget budget) {}

    /**
     * Updates the estimate of C from an answer that carries a budget, which says how long the peer had the
     * request. Other answers are ignored.
     */
    @Override
    public void onResponse(Result response, Invoker<?> invoker, Invocation invocation) {
        if (response.hasException()) {
            record(response.getException(), invoker);
        }
        if (invocation.get(KEY) instanceof Sent sent
                && response.getObjectAttachment(BudgetField.HEADER) instanceof String text) {
            try {
                long now = Deadlines.now();
                String peer = invoker.getUrl().getAddress();
                peers.record(now, peer, now - sent.nowNanos, sent.budget, BudgetField.parse(text));
            } catch (BadBudget unreadable) {
                // Treated like an answer without a budget.
            }
        }
    }

    /** An error carries no budget, so it changes no estimate. One of a call that was not sent is recorded already. */
    @Override
    public void onError(Throwable failure, Invoker<?> invoker, Invocation invocation) {
        if (invocation.get(KEY) != null) {
            record(failure, invoker);
        }
    }

    private static long timeoutMs(Invoker<?> invoker, Invocation invocation) {
        String method = RpcUtils.getMethodName(invocation);
        RpcContext context = RpcContext.getClientAttachment();
        long timeout = CommonConstants.DEFAULT_TIMEOUT;
        return Math.max(0, RpcUtils.getTimeout(invoker.getUrl(), method, context, invocation, timeout));
    }

    private static final long NANOS_IN_MS = 1_000_000;
}
