package greenwave.testbed;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Map;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.rpc.model.ApplicationModel;
import org.apache.dubbo.rpc.model.FrameworkModel;

/** Dubbo with services on their own ports: each has a protocol with a pool, each reference a connection. */
final class DubboNode {
    private final ApplicationModel application = new FrameworkModel().newApplication();

    DubboNode(String name) {
        ApplicationConfig config = new ApplicationConfig(name);
        config.setQosEnable(false);
        application.getApplicationConfigManager().setApplication(config);
    }

    /**
     * Serves {@code service} with {@code threads} threads and a queue of {@code capacity} requests; returns
     * the port.
     */
    <T> int serve(Class<T> type, T service, int threads, int capacity, Map<String, String> parameters)
            throws IOException {
        ProtocolConfig protocol = new ProtocolConfig("dubbo", freePort());
        protocol.setHost("127.0.0.1");
        protocol.setThreadpool("deadline");
        protocol.setThreads(threads);
        protocol.setQueues(capacity);
        protocol.setParameters(parameters);
        ServiceConfig<T> config = new ServiceConfig<>(application.newModule());
        config.setRegistry(new RegistryConfig("N/A"));
        config.setProtocol(protocol);
        config.setInterface(type);
        config.setRef(service);
        config.export();
        return protocol.getPort();
    }

    /** The service on {@code port}. */
    <T> T call(Class<T> type, int port, Map<String, String> parameters) {
        ReferenceConfig<T> reference = new ReferenceConfig<>(application.newModule());
        reference.setInterface(type);
        reference.setUrl("dubbo://127.0.0.1:" + port);
        reference.setScope("remote");
        reference.setTimeout(TIMEOUT_MS);
        reference.setRetries(0);
        reference.setParameters(parameters);
        return reference.get();
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    /**
     * Dubbo's own timeout, longer than any budget: half of the elapsed time that a server takes for absurd.
     */
    private static final int TIMEOUT_MS = 1_800_000;
}
