package greenwave.testbed;

import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A server of searches and one that answers as Redis does: both write down what they were asked. */
final class Neighbours implements AutoCloseable {
    final Set<String> asked = ConcurrentHashMap.newKeySet();

    private final HttpServer search;
    private final ServerSocket redis;

    Neighbours() throws IOException {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        search = HttpServer.create(new InetSocketAddress(loopback, 0), 0);
        search.createContext("/search", exchange -> {
            asked.add(exchange.getRequestURI().getQuery());
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        search.start();
        redis = new ServerSocket(0, 1, loopback);
        Thread thread = new Thread(this::answer, "redis");
        thread.setDaemon(true);
        thread.start();
    }

    /** What a runner is told of both. */
    List<String> arguments() {
        String host = redis.getInetAddress().getHostAddress();
        return List.of(
                "search=http://" + host + ':' + search.getAddress().getPort() + "/search",
                "redis=" + host + ':' + redis.getLocalPort());
    }

    /** A command is seven lines: how many words, and of each its length and itself. */
    private void answer() {
        try (Socket socket = redis.accept();
                BufferedReader in = new BufferedReader(
                        new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
                OutputStream out = socket.getOutputStream()) {
            int lines = 0;
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                lines++;
                if (lines % 7 == 5) {
                    asked.add(line);
                }
                if (lines % 7 == 0) {
                    out.write("+OK\r\n".getBytes(StandardCharsets.US_ASCII));
                }
            }
        } catch (IOException closed) {
            // With the test.
        }
    }

    @Override
    public void close() throws IOException {
        search.stop(0);
        redis.close();
    }
}
