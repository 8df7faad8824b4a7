package greenwave.dubbo;

import greenwave.deadline.Gate;
import greenwave.deadline.thread.DeadlinePool;
import java.util.concurrent.Executor;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.common.threadlocal.NamedInternalThreadFactory;
import org.apache.dubbo.common.threadpool.ThreadPool;

/**
 * The pool {@code threadpool=deadline}: a fixed number of threads that serve by what is left.
 *
 * <p>{@code threads} and {@code queues} as for Dubbo's fixed pool (without {@code queues}: 10,000); the
 * queue's other parameters are {@link Servers}'.
 */
public final class DeadlineThreadPool implements ThreadPool {
    @Override
    public Executor getExecutor(URL url) {
        return new Pool(url, Servers.open(url));
    }

    private static final class Pool extends DeadlinePool {
        private final Gate gate;

        Pool(URL url, Gate gate) {
            super(
                    gate,
                    url.getParameter(CommonConstants.THREADS_KEY, CommonConstants.DEFAULT_THREADS),
                    gate.queue().capacity(),
                    new NamedInternalThreadFactory(name(url), true));
            this.gate = gate;
        }

        @Override
        public void execute(Runnable event) {
            super.execute(DubboCall.of(event, gate));
        }

        private static String name(URL url) {
            String given = (String) url.getAttribute(CommonConstants.THREAD_NAME_KEY, "Dubbo");
            return url.getParameter(CommonConstants.THREAD_NAME_KEY, given);
        }
    }
}
