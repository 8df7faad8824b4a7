package greenwave.bench;

import greenwave.deadline.thread.Deadlines;
import greenwave.dubbo.ConsumerFilter;
import greenwave.dubbo.ProviderFilter;
import java.util.concurrent.TimeUnit;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.rpc.AppResponse;
import org.apache.dubbo.rpc.AsyncRpcResult;
import org.apache.dubbo.rpc.Invocation;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.Result;
import org.apache.dubbo.rpc.RpcInvocation;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Cost per call of both ends' filters: one inside a request, its budget written, read, counted and
 * learned from at both ends, without Dubbo around it; and the same without the filters.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(2)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
public class DubboFilters {
    private final URL url = URL.valueOf("dubbo://127.0.0.1:1/greenwave.bench.Step?timeout=1000");
    private final ProviderFilter provider = new ProviderFilter();
    private final ConsumerFilter consumer = new ConsumerFilter();
    private final Invoker<Object> served = new Local(url) {
        @Override
        public Result invoke(Invocation invocation) {
            return AsyncRpcResult.newDefaultAsyncResult(new AppResponse(), invocation);
        }
    };
    private final Invoker<Object> arrived = new Local(url) {
        @Override
        public Result invoke(Invocation invocation) {
            Result result = provider.invoke(served, invocation);
            provider.onResponse(result, served, invocation);
            return result;
        }
    };
    private Deadlines.Scope scope;

    /** The request that makes the calls: it has an hour. */
    @Setup
    public void enter() {
        scope = Deadlines.within(3_600_000_000_000L);
    }

    /** End of the invocation. */
    @TearDown
    public void leave() {
        scope.close();
    }

    /** A call through both filters. */
    @Benchmark
    public Result both() {
        RpcInvocation invocation = invocation();
        Result result = consumer.invoke(arrived, invocation);
        consumer.onResponse(result, arrived, invocation);
        return result;
    }

    /** The same call without them. */
    @Benchmark
    public Result neither() {
        return served.invoke(invocation());
    }

    private static RpcInvocation invocation() {
        RpcInvocation invocation =
                new RpcInvocation(null, "go", "greenwave.bench.Step", "", new Class<?>[0], new Object[0]);
        invocation.setTargetServiceUniqueName("greenwave.bench.Step:0.0.0");
        return invocation;
    }

    /** Stand-in for the other end. */
    private abstract static class Local implements Invoker<Object> {
        private final URL url;

        Local(URL url) {
            this.url = url;
        }

        @Override
        public Class<Object> getInterface() {
            return Object.class;
        }

        @Override
        public URL getUrl() {
            return url;
        }

        @Override
        public boolean isAvailable() {
            return true;
        }

        @Override
        public void destroy() {}
    }
}
