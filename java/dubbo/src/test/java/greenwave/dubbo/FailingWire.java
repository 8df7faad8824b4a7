package greenwave.dubbo;

import greenwave.deadline.codec.BudgetField;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.dubbo.rpc.Filter;
import org.apache.dubbo.rpc.Invocation;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.Result;
import org.apache.dubbo.rpc.RpcException;

/** Fails two calls, each after 30 ms by the tests' clock, between our filter and the real network. */
public final class FailingWire implements Filter {
    static volatile AtomicLong clock;
    static volatile List<String> sent;

    @Override
    public Result invoke(Invoker<?> invoker, Invocation invocation) {
        sent.add(invocation.getAttachment(BudgetField.HEADER));
        clock.addAndGet(30 * LoopbackCluster.MS);
        if (sent.size() < 3) {
            throw new RpcException(RpcException.NETWORK_EXCEPTION, "reset");
        }
        return invoker.invoke(invocation);
    }
}
