package greenwave.dubbo;

import java.util.concurrent.Executor;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.remoting.http12.RequestMetadata;
import org.apache.dubbo.rpc.executor.ExecutorSupport;
import org.apache.dubbo.rpc.executor.IsolationExecutorSupportFactory;

/**
 * An executor for each request of Dubbo's Triple protocol, by its deadline: Dubbo asks for one when the headers
 * have arrived.
 *
 * <p>Dubbo wraps its own factories in this one. Other protocols, and pools other than {@code deadline}, keep
 * their executors.
 */
public final class TripleExecutors implements IsolationExecutorSupportFactory {
    private final IsolationExecutorSupportFactory factory;

    /** Wrapper of {@code factory}; Dubbo's extension loader calls it. */
    public TripleExecutors(IsolationExecutorSupportFactory factory) {
        this.factory = factory;
    }

    @Override
    public ExecutorSupport createIsolationExecutorSupport(URL url) {
        ExecutorSupport support = factory.createIsolationExecutorSupport(url);
        return request -> {
            Executor executor = support.getExecutor(request);
            return request instanceof RequestMetadata metadata && executor instanceof DeadlineThreadPool.Pool pool
                    ? TripleRequest.arrive(pool, metadata)
                    : executor;
        };
    }
}
