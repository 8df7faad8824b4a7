package greenwave.dubbo;

import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.common.threadlocal.NamedInternalThreadFactory;
import org.apache.dubbo.common.threadpool.ThreadPool;

/**
 * The pool {@code threadpool=deadline}: a fixed number of threads that serve by what is left.
 *
 * <p>{@code threads} and {@code queues} as for Dubbo's fixed pool (without {@code queues}: 10,000); the
 * queue's other parameters are {@link Server}'s. All threads are there from the start, so that every request
 * passes the queue and whoever is hopeless is found out.
 */
public final class DeadlineThreadPool implements ThreadPool {
    @Override
    public Executor getExecutor(URL url) {
        return new Pool(url, Server.open(url));
    }

    private static final class Pool extends ThreadPoolExecutor {
        private final Server server;

        Pool(URL url, Server server) {
            this(url, server, url.getParameter(CommonConstants.THREADS_KEY, CommonConstants.DEFAULT_THREADS), name(url));
        }

        private Pool(URL url, Server server, int threads, String name) {
            super(
                    threads,
                    threads,
                    0,
                    TimeUnit.MILLISECONDS,
                    new CallQueue(server.settings()),
                    new NamedInternalThreadFactory(name, true),
                    (task, pool) -> {
                        throw new RejectedExecutionException("port " + url.getPort() + ": too many requests wait");
                    });
            this.server = server;
            prestartAllCoreThreads();
        }

        @Override
        public void execute(Runnable event) {
            super.execute(Call.of(event, server));
        }

        private static String name(URL url) {
            String given = (String) url.getAttribute(CommonConstants.THREAD_NAME_KEY, "Dubbo");
            return url.getParameter(CommonConstants.THREAD_NAME_KEY, given);
        }
    }
}
