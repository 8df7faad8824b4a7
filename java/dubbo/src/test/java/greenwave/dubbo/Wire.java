package greenwave.dubbo;

import java.util.concurrent.atomic.AtomicLong;
import org.apache.dubbo.rpc.Filter;
import org.apache.dubbo.rpc.Invocation;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.Result;

/** Adds 15 ms in each direction by the tests' clock, between our filter and the real network. */
public final class Wire implements Filter, Filter.Listener {
    static volatile AtomicLong clock;

    @Override
    public Result invoke(Invoker<?> invoker, Invocation invocation) {
        clock.addAndGet(15 * LoopbackCluster.MS);
        return invoker.invoke(invocation);
    }

    @Override
    public void onResponse(Result response, Invoker<?> invoker, Invocation invocation) {
        clock.addAndGet(15 * LoopbackCluster.MS);
    }

    @Override
    public void onError(Throwable failure, Invoker<?> invoker, Invocation invocation) {}
}
