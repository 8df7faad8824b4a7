package greenwave.dubbo;

import greenwave.deadline.Stage;
import greenwave.deadline.StageTimer;
import greenwave.deadline.thread.Deadlines;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;

/** Two services in series. The second one prints how much of 200 ms remains, and the times spent before. */
public final class Example {
    private Example() {}

    public static void main(String[] arguments) throws Exception {
        try (Node second = new Node("second");
                Node first = new Node("first");
                Node user = new Node("user")) {
            second.handler = text -> {
                StageTimer timer = Deadlines.current().orElseThrow();
                long now = Deadlines.now();
                StringBuilder reply = new StringBuilder(text);
                reply.append(timer.remaining(now).leftNanos() / 1_000).append(" us left of 200000; queue, service:");
                for (Stage stage : timer.leave(now).stages()) {
                    reply.append(" (").append(stage.queueNanos() / 1_000);
                    reply.append(' ').append(stage.serviceNanos() / 1_000).append(')');
                }
                return CompletableFuture.completedFuture(reply.toString());
            };
            Step toSecond = first.call(second.serve("deadline", 4, null, Map.of()), 1_000, null);
            first.handler = text -> {
                LockSupport.parkNanos(20_000_000); // the work of the first service
                return toSecond.goAsync(text);
            };
            Step toFirst = user.call(first.serve("deadline", 4, null, Map.of()), 1_000, null);
            toFirst.go("warm: ");
            try (Deadlines.Scope scope = Deadlines.within(200_000_000)) {
                System.out.println(toFirst.go("second: "));
            }
        }
        System.exit(0);
    }
}
