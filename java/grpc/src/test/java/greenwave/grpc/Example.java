package greenwave.grpc;

import greenwave.deadline.Limits;
import greenwave.deadline.Stage;
import greenwave.deadline.StageTimer;
import greenwave.deadline.thread.Deadlines;
import io.grpc.Channel;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;

/** Two services in series. The second one prints how much of 200 ms remains, and the times spent before. */
public final class Example {
    private Example() {}

    public static void main(String[] arguments) throws Exception {
        DeadlineClient client = new DeadlineClient();
        try (Node second = new Node(Limits.DEFAULT, 100);
                Node first = new Node(Limits.DEFAULT, 100);
                Node user = new Node(Limits.DEFAULT, 100)) {
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
            Channel toSecond = first.channel(second.serve(), client);
            first.handler = text -> {
                LockSupport.parkNanos(20_000_000); // the work of the first service
                return Node.go(toSecond, text);
            };
            Channel toFirst = user.channel(first.serve(), client);
            Node.go(toFirst, "warm: ").join();
            try (Deadlines.Scope scope = Deadlines.within(200_000_000)) {
                System.out.println(Node.go(toFirst, "second: ").join());
            }
        }
    }
}
