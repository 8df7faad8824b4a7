package greenwave.deadline.thread;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import greenwave.deadline.BudgetValidator;
import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Gate;
import greenwave.deadline.Limits;
import greenwave.deadline.Order;
import greenwave.deadline.Shedding;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

/** A request without a deadline ranks by its age, as in the Rust layers. */
//~ java: a request without a deadline ranks by its age, and not behind all that have one
class CallTest {
    private static final long NOW = 500;
    private static final long AGE_MAX = 1_000_000;
    private final Gate gate = new Gate(
            new Limits(Long.MAX_VALUE, Long.MAX_VALUE, true),
            new DeadlineQueue.Settings(10, Order.EDF, Shedding.EXPIRED, AGE_MAX));

    @Test
    void aCallWithoutADeadlineGoesBeforeThoseThatAreDueLater() {
        Call without = call(null);
        Call later = call("2m");
        Call sooner = call("500u");
        assertEquals(OptionalLong.empty(), without.leftNanos());
        assertEquals(OptionalLong.of(500_000), sooner.leftNanos());
        DeadlineQueue<Call> queue = new DeadlineQueue<>(gate.queue());
        for (Call call : new Call[] {later, without, sooner}) {
            queue.offer(NOW, call);
        }
        for (Call call : new Call[] {sooner, without, later}) {
            assertSame(call, queue.next(NOW).entry());
        }
    }

    private Call call(String grpcTimeout) {
        Gate.Arrival arrival = gate.arrive(NOW, BudgetValidator.Received.of(null, grpcTimeout, null), "go");
        return new Call(NOW, gate, arrival) {
            @Override
            public void run() {}

            @Override
            protected void answer(Shedding.Reason reason) {}
        };
    }
}
