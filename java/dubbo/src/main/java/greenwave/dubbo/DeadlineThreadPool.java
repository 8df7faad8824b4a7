package greenwave.dubbo;

import greenwave.deadline.Gate;
import greenwave.deadline.thread.DeadlinePool;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.common.logger.ErrorTypeAwareLogger;
import org.apache.dubbo.common.logger.LoggerFactory;
import org.apache.dubbo.common.threadlocal.NamedInternalThreadFactory;
import org.apache.dubbo.common.threadpool.ThreadPool;
import org.apache.dubbo.common.threadpool.serial.SerializingExecutor;

/**
 * The pool {@code threadpool=deadline}: a fixed number of threads that serve requests by remaining budget.
 *
 * <p>The parameters {@code threads} and {@code queues} are those of Dubbo's fixed pool (without {@code
 * queues}: 10,000); for the queue's other parameters see {@link Servers}.
 */
public final class DeadlineThreadPool implements ThreadPool {
    private static final ErrorTypeAwareLogger LOGGER =
            LoggerFactory.getErrorTypeAwareLogger(DeadlineThreadPool.class);

    @Override
    public Executor getExecutor(URL url) {
        return new Pool(url, Servers.open(url));
    }

    /** The pool of one port. */
    static final class Pool extends DeadlinePool {
        private final Gate gate;
        private final AtomicBoolean unordered = new AtomicBoolean();

        Pool(URL url, Gate gate) {
            super(
                    gate,
                    url.getParameter(CommonConstants.THREADS_KEY, CommonConstants.DEFAULT_THREADS),
                    gate.queue().capacity(),
                    new NamedInternalThreadFactory(name(url), true));
            this.gate = gate;
        }

        /** Admission of its port. */
        Gate gate() {
            return gate;
        }

        /** Dubbo's events; a request of Triple comes from a {@link TripleRequest}, else its headers are not known. */
        @Override
        public void execute(Runnable event) {
            if (event instanceof SerializingExecutor && unordered.compareAndSet(false, true)) {
                String why = "requests of Triple are served in order of arrival, before all others: set"
                        + " dubbo.application.executor-management-mode=isolation (no help for HTTP without gRPC)";
                LOGGER.warn("0-0", "", "", why);
            }
            super.execute(DubboCall.of(event, gate));
        }

        private static String name(URL url) {
            String given = (String) url.getAttribute(CommonConstants.THREAD_NAME_KEY, "Dubbo");
            return url.getParameter(CommonConstants.THREAD_NAME_KEY, given);
        }
    }
}
