package greenwave.dubbo;

import greenwave.deadline.thread.Deadlines;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A separate process that prints its address and each call, and never answers. */
final class Worker {
    private Worker() {}

    public static void main(String[] arguments) throws Exception {
        try (Node node = new Node("worker")) {
            Deadlines.countBy(() -> 0);
            node.handler = text -> {
                long leftMs = Deadlines.remaining().orElseThrow().leftNanos() / 1_000_000;
                System.out.println("called with " + leftMs + " ms");
                return new CompletableFuture<>();
            };
            System.out.println("port " + node.serve("deadline", 1, null, Map.of("deadline.trusted", "true")));
            // The parent ends this process; without the parent it ends by itself.
            TimeUnit.SECONDS.sleep(60);
        }
    }
}
