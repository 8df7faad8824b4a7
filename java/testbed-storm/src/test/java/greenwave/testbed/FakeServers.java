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

/** Fake search server and fake Redis; both record their requests. */
final class FakeServers implements AutoCloseable {
    final Set<String> requests = ConcurrentHashMap.newKeySet();

    private final HttpServer search;
    private final ServerSocket redis;

    FakeServers() throws IOException {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        search = HttpServer.create(new InetSocketAddress(loopback, 0), 0);
        search.createContext("/search", exchange -> {
            requests.add(exchange.getRequestURI().getQuery());
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        search.start();
        redis = new ServerSocket(0, 1, loopback);
        Thread thread = new Thread(this::answer, "redis");
        thread.setDaemon(true);
        thread.start();
    }

    /** A runner's arguments for both. */
    List<String> arguments() {
        String host = redis.getInetAddress().getHostAddress();
        return List.of(
                "search=http://" + host + ':' + search.getAddress().getPort() + "/search",
                "redis=" + host + ':' + redis.getLocalPort());
    }

    /** A command has seven lines: number of words, then each word's length and text. */
    private void answer() {
        try (Socket socket = redis.accept();
                BufferedReader in = new BufferedReader(
                        new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
                OutputStream out = socket.getOutputStream()) {
            int lines = 0;
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                lines++;
                if (lines % 7 == 5) {
                    requests.add(line);
                }
                if (lines % 7 == 0) {
                    out.write("+OK\r\n".getBytes(StandardCharsets.US_ASCII));
                }
            }
        } catch (IOException closed) {
            // Ends with the test.
        }
    }

    @Override
    public void close() throws IOException {
        search.stop(0);
        redis.close();
    }
}
