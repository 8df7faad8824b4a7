package greenwave.dubbo;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.function.Function;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.common.threadpool.manager.ExecutorRepository;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.rpc.model.ApplicationModel;
import org.apache.dubbo.rpc.model.FrameworkModel;

/**
 * A Dubbo instance in this process, with its own framework model, real sockets on loopback, and no registry.
 */
final class Node implements AutoCloseable {
    static {
        // A regular stop would wait ten seconds for outstanding answers.
        System.setProperty("dubbo.service.shutdown.wait", "1");
    }

    /** Number of requests that wait at a service. */
    static final int QUEUES = 100;

    private final FrameworkModel framework = new FrameworkModel();
    private final ApplicationModel application = framework.newApplication();
    private final String protocol;
    private URL exported;
    volatile Function<String, CompletableFuture<String>> handler = CompletableFuture::completedFuture;

    Node(String name) {
        this(name, "dubbo");
    }

    /** A process whose service and calls speak {@code protocol}. */
    Node(String name, String protocol) {
        this.protocol = protocol;
        ApplicationConfig config = new ApplicationConfig(name);
        config.setQosEnable(false);
        application.getApplicationConfigManager().setApplication(config);
    }

    /** Serves {@link Step} with {@code threads} threads; returns the port. */
    int serve(String pool, int threads, String filter, Map<String, String> parameters) throws IOException {
        ProtocolConfig protocol = new ProtocolConfig(this.protocol, freePort());
        protocol.setHost("127.0.0.1");
        protocol.setThreadpool(pool);
        protocol.setThreads(threads);
        protocol.setQueues(QUEUES);
        protocol.setParameters(parameters);
        ServiceConfig<Step> service = new ServiceConfig<>(application.newModule());
        service.setRegistry(new RegistryConfig("N/A"));
        service.setProtocol(protocol);
        service.setInterface(Step.class);
        service.setFilter(filter);
        service.setRef(new Step() {
            @Override
            public String go(String text) {
                return handler.apply(text).join();
            }

            @Override
            public CompletableFuture<String> goAsync(String text) {
                return handler.apply(text);
            }
        });
        service.export();
        exported = service.getExportedUrls().get(0);
        return protocol.getPort();
    }

    /** The service on {@code port}, with Dubbo's timeout {@code timeoutMs} and filters {@code filter}. */
    Step call(int port, int timeoutMs, String filter) {
        return call(port, timeoutMs, filter, 0);
    }

    /** The same, with {@code retries} by Dubbo's cluster. */
    Step call(int port, int timeoutMs, String filter, int retries) {
        ReferenceConfig<Step> reference = new ReferenceConfig<>(application.newModule());
        reference.setInterface(Step.class);
        reference.setUrl(protocol + "://127.0.0.1:" + port);
        reference.setScope("remote");
        reference.setTimeout(timeoutMs);
        reference.setRetries(retries);
        reference.setFilter(filter);
        return reference.get();
    }

    /** Number of requests that wait in the service's pool. */
    int waiting() {
        ThreadPoolExecutor pool =
                (ThreadPoolExecutor) ExecutorRepository.getInstance(application).getExecutor(exported);
        return pool.getQueue().size();
    }

    @Override
    public void close() {
        framework.destroy();
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }
}
