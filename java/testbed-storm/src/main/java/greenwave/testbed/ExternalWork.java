package greenwave.testbed;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Real work during a topology's service times: a search by each worker, and a write to Redis by the last
 * stage.
 *
 * <p>If the query takes longer than the planned service time, so does the service; the reported service times
 * show by how much.
 */
final class ExternalWork {
    private final HttpClient client = HttpClient.newHttpClient();
    private final String searchUrl;
    private final Redis redis;

    private ExternalWork(String searchUrl, Redis redis) {
        this.searchUrl = searchUrl;
        this.redis = redis;
    }

    /**
     * Parses the arguments {@code search=URL}, a server of {@code GET URL?partition=P&query=N}, and {@code
     * redis=HOST:PORT}; both are optional.
     *
     * @throws RunnerException for any other argument, or if Redis cannot be reached
     */
    static ExternalWork of(List<String> arguments) throws RunnerException {
        String search = null;
        Redis redis = null;
        for (String argument : arguments) {
            if (argument.startsWith("search=")) {
                search = argument.substring("search=".length());
            } else if (argument.startsWith("redis=")) {
                redis = Redis.at(argument.substring("redis=".length()));
            } else {
                throw new RunnerException("argument " + argument + " is not one of search=URL, redis=HOST:PORT", "one of these");
            }
        }
        return new ExternalWork(search, redis);
    }

    /** True if every request needs a query. */
    boolean searches() {
        return searchUrl != null;
    }

    /** Searches {@code partition} for query number {@code query}; does nothing without a search server. */
    void search(int partition, int query) {
        if (searchUrl == null) {
            return;
        }
        URI uri = URI.create(searchUrl + "?partition=" + partition + "&query=" + query);
        try {
            HttpResponse<String> answer =
                    client.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new IllegalStateException(uri + ": " + answer.statusCode() + " " + answer.body());
            }
        } catch (IOException failed) {
            throw new IllegalStateException(uri + ": " + failed, failed);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    /** Records in Redis that {@code request} was answered; does nothing without Redis. */
    void write(int request) {
        if (redis != null) {
            redis.set("request:" + request, "answered");
        }
    }

    /** One connection. Protocol: RESP; a request is an array of strings, a response one line. */
    private static final class Redis {
        private final Socket socket;
        private final BufferedReader answers;

        private Redis(Socket socket) throws IOException {
            this.socket = socket;
            this.answers =
                    new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
        }

        static Redis at(String address) throws RunnerException {
            int colon = address.lastIndexOf(':');
            try {
                Socket socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
                socket.setTcpNoDelay(true);
                return new Redis(socket);
            } catch (IOException | RuntimeException unreachable) {
                throw new RunnerException("redis " + address + ": " + unreachable, "redis-server, and HOST:PORT of it");
            }
        }

        synchronized void set(String key, String value) {
            String command = String.format(
                    "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", key.length(), key, value.length(), value);
            try {
                socket.getOutputStream().write(command.getBytes(StandardCharsets.US_ASCII));
                String answer = answers.readLine();
                if (!"+OK".equals(answer)) {
                    throw new IllegalStateException("redis answered " + answer + " to SET " + key);
                }
            } catch (IOException gone) {
                throw new IllegalStateException("redis: " + gone, gone);
            }
        }
    }
}
