package greenwave.dubbo;

import static org.junit.jupiter.api.Assertions.assertEquals;

import greenwave.deadline.Budget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.thread.Deadlines;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.dubbo.rpc.RpcException;
import org.junit.jupiter.api.Test;

/** The same over Dubbo's Triple protocol (gRPC over HTTP/2). */
class TripleTest extends DubboTest {
    @Override
    String protocol() {
        return "tri";
    }

    @Override
    String method() {
        return "/" + Step.class.getName() + "/go";
    }

    /** Dubbo wraps a status of Triple in an exception with an unknown code. */
    @Override
    RpcException answered(RpcException thrown) {
        return (RpcException) thrown.getCause().getCause();
    }

    //~ java: Dubbo: old peers, cancelled calls, dying workers and invalid budgets are handled
    @Test
    void aClientWithoutTheFilterHasItsGrpcTimeout() throws Exception {
        Node server = node();
        server.handler = text -> CompletableFuture.completedFuture(seen());
        int port = server.serve("deadline", 1, null, TRUSTED);
        assertEquals(TIMEOUT_MS + " ms", node().call(port, TIMEOUT_MS, "-deadline-consumer").go("x"));
        int stock = server.serve("fixed", 1, null, Map.of());
        try (Deadlines.Scope scope = Deadlines.within(17_000 * MS)) {
            assertEquals("17000 ms", node().call(stock, TIMEOUT_MS, null).go("x"), "behind a stock pool");
        }
    }

    /** Triple's port speaks HTTP/1.1 with JSON as well. */
    //~ java: Dubbo: a request of an HTTP client over Triple has the budget of its header
    @Test
    void anHttpRequestHasTheBudgetOfItsHeader() throws Exception {
        Node server = node();
        server.handler = text -> CompletableFuture.completedFuture(text + seen());
        int port = server.serve("deadline", 1, null, TRUSTED);
        URI address = URI.create("http://127.0.0.1:" + port + method());
        HttpRequest request = HttpRequest.newBuilder(address)
                .header("content-type", "application/json")
                .header("greenwave-budget", BudgetField.write(Budget.of(17_000 * MS)))
                .POST(HttpRequest.BodyPublishers.ofString("[\"left: \"]"))
                .build();
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        assertEquals("\"left: 17000 ms\"", client.send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
