package greenwave.dubbo;

import greenwave.deadline.thread.Deadlines;
import java.util.Arrays;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.rpc.AppResponse;
import org.apache.dubbo.rpc.AsyncRpcResult;
import org.apache.dubbo.rpc.Invocation;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.Result;
import org.apache.dubbo.rpc.RpcInvocation;

/**
 * What the filters of both ends cost per call, in a plain loop: a call inside a request, its budget written,
 * read, counted and learned from, without Dubbo around it; and the same without the filters.
 */
public final class FilterCost {
    private FilterCost() {}

    public static void main(String[] arguments) {
        URL url = URL.valueOf("dubbo://127.0.0.1:1/greenwave.dubbo.Step?timeout=1000");
        ProviderFilter provider = new ProviderFilter();
        ConsumerFilter consumer = new ConsumerFilter();
        Invoker<Step> served = invoker(url, i -> AsyncRpcResult.newDefaultAsyncResult(new AppResponse(), i));
        Invoker<Step> arrived = invoker(url, i -> {
            Result result = provider.invoke(served, i);
            provider.onResponse(result, served, i);
            return result;
        });
        try (Deadlines.Scope scope = Deadlines.within(3_600_000_000_000L)) {
            double[] with = new double[RUNS];
            double[] without = new double[RUNS];
            for (int run = -RUNS; run < RUNS; run++) {
                double plain = nanosPerCall(served::invoke);
                double filtered = nanosPerCall(i -> consumer.invoke(arrived, i));
                if (run >= 0) {
                    without[run] = plain;
                    with[run] = filtered;
                }
            }
            Arrays.sort(with);
            Arrays.sort(without);
            System.out.printf(
                    "both filters: %.0f ns per call (median of %d runs; %.0f with, %.0f without)%n",
                    with[RUNS / 2] - without[RUNS / 2], RUNS, with[RUNS / 2], without[RUNS / 2]);
        }
    }

    private interface Body {
        Result invoke(Invocation invocation);
    }

    private static double nanosPerCall(Body body) {
        long from = System.nanoTime();
        for (int call = 0; call < CALLS; call++) {
            RpcInvocation invocation =
                    new RpcInvocation(null, "go", "greenwave.dubbo.Step", "", new Class<?>[0], new Object[0]);
            invocation.setTargetServiceUniqueName("greenwave.dubbo.Step:0.0.0");
            if (body.invoke(invocation).hasException()) {
                throw new IllegalStateException("a call failed");
            }
        }
        return (double) (System.nanoTime() - from) / CALLS;
    }

    private static Invoker<Step> invoker(URL url, Body body) {
        return new Invoker<>() {
            @Override
            public Class<Step> getInterface() {
                return Step.class;
            }

            @Override
            public Result invoke(Invocation invocation) {
                return body.invoke(invocation);
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
        };
    }

    private static final int RUNS = 11;
    private static final int CALLS = 100_000;
}
