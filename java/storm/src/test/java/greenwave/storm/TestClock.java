package greenwave.storm;

import greenwave.deadline.thread.Deadlines;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The clock of deadlines in tests: it is advanced by the test or runs with real time; it never goes
 * backwards.
 */
final class TestClock {
    private static final long BORN = System.nanoTime();
    private static final long RUNNING = -1;
    private static final AtomicLong AHEAD = new AtomicLong();
    private static volatile long stopped = RUNNING;

    private TestClock() {}

    static void install() {
        Deadlines.countBy(() -> {
            long at = stopped;
            return AHEAD.get() + (at == RUNNING ? System.nanoTime() - BORN : at);
        });
    }

    static void stop() {
        stopped = System.nanoTime() - BORN;
    }

    static void run() {
        stopped = RUNNING;
    }

    static void advance(long nanos) {
        AHEAD.addAndGet(nanos);
    }
}
