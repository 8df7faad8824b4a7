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
 * What a topology does for real within its waits: a search of each worker, a write to Redis by the last stage.
 *
 * <p>Where the query takes longer than the plan says, so does the work; how much longer is seen in the service
 * times that are said.
 */
final class Reality {
    private final HttpClient client = HttpClient.newHttpClient();
    private final String searchUrl;
    private final Redis redis;

    private Reality(String searchUrl, Redis redis) {
        this.searchUrl = searchUrl;
        this.redis = redis;
    }

    /**
     * Of the arguments {@code search=URL}, a server of {@code GET URL?partition=P&query=N}, and {@code
     * redis=HOST:PORT}; both may be left out.
     *
     * @throws Unable for any other argument, or when Redis cannot be reached
     */
    static Reality of(List<String> arguments) throws Unable {
        String search = null;
        Redis redis = null;
        for (String argument : arguments) {
            if (argument.startsWith("search=")) {
                search = argument.substring("search=".length());
            } else if (argument.startsWith("redis=")) {
                redis = Redis.at(argument.substring("redis=".length()));
            } else {
                throw new Unable("argument " + argument + " is none of search=URL, redis=HOST:PORT", "one of these");
            }
        }
        return new Reality(search, redis);
    }

    /** Whether every request needs a query. */
    boolean searches() {
        return searchUrl != null;
    }

    /** Has {@code partition} searched for query number {@code query}; nothing where nobody searches. */
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

    /** Writes that {@code request} was answered; nothing without Redis. */
    void write(int request) {
        if (redis != null) {
            redis.set("request:" + request, "answered");
        }
    }

    /** One connection; the protocol is RESP: an array of strings there, a line back. */
    private static final class Redis {
        private final Socket socket;
        private final BufferedReader answers;

        private Redis(Socket socket) throws IOException {
            this.socket = socket;
            this.answers =
                    new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
        }

        static Redis at(String address) throws Unable {
            int colon = address.lastIndexOf(':');
            try {
                Socket socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
                socket.setTcpNoDelay(true);
                return new Redis(socket);
            } catch (IOException | RuntimeException unreachable) {
                throw new Unable("redis " + address + ": " + unreachable, "redis-server, and HOST:PORT of it");
            }
        }

        synchronized void set(String key, String value) {
            String command = String.format(
                    "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", key.length(), key, value.length(), value);
            try {
                socket.getOutputStream().write(command.getBytes(StandardCharsets.US_ASCII));
                String answer = answers.readLine();
                if (!"+OK".equals(answer)) {
                    throw new IllegalStateException("redis said " + answer + " to SET " + key);
                }
            } catch (IOException gone) {
                throw new IllegalStateException("redis: " + gone, gone);
            }
        }
    }
}
