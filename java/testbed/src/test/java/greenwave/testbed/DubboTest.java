package greenwave.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The runner on real Dubbo follows the protocol of spec/testbed.md. */
class DubboTest {
    private static final int REQUESTS = 20;

    @Test
    void eachRequestIsServedByAllServicesInOrderAndAnswered() {
        List<String> reported = run(plan("edf", "infeasible", 60_000_000_000L), 0, "");
        assertEquals("ready", reported.get(0));
        assertTrue(reported.get(reported.size() - 1).matches("late,[0-9]+"), reported.get(reported.size() - 1));
        assertEquals(2 + 4 * REQUESTS, reported.size());
        for (int request = 0; request < REQUESTS; request++) {
            long before = 0;
            for (int stage = 0; stage < 3; stage++) {
                String[] line = only(reported, "stage," + request + ',' + stage + ",0,");
                assertEquals("served", line[4]);
                long elapsed = Long.parseLong(line[5]);
                long queue = Long.parseLong(line[6]);
                long service = Long.parseLong(line[7]);
                assertTrue(service >= 1_000_000, "its work takes 1 ms");
                assertTrue(elapsed >= before + queue + service, "time is counted over all stages");
                before = elapsed;
            }
            String[] end = only(reported, "end," + request + ",");
            assertEquals("answered", end[2]);
            assertTrue(Long.parseLong(end[3]) >= before);
            assertEquals("1,1", end[4] + ',' + end[5]);
        }
    }

    @Test
    void aRequestCreatedTooLateIsDroppedAtTheFirstServiceAndFails() {
        List<String> reported = run(plan("edf", "expired", 1), 0, "");
        for (int request = 0; request < REQUESTS; request++) {
            assertEquals("dropped", only(reported, "stage," + request + ",")[4]);
            String[] end = only(reported, "end," + request + ",");
            assertEquals("failed,0,1", end[2] + ',' + end[4] + ',' + end[5]);
        }
    }

    @Test
    void withoutSheddingEveryRequestCompletes() {
        List<String> reported = run(plan("edf", "none", 1), 0, "");
        for (int request = 0; request < REQUESTS; request++) {
            assertEquals("answered", only(reported, "end," + request + ",")[2]);
        }
    }

    @Test
    void anErrorHasTwoLines() {
        String try_ = "\n  try: a plan as spec/testbed.md has it\n";
        String settings = plan("edf", "none", 1);
        run(settings.replace("\"slos\"", "\"sloes\":1,\"slos\""), 2,
                "error: key sloes is not one of [age_max_ns, capacity, order, shedding, slos, stages]" + try_);
        run(settings.replace("edf", "soon"), 2, "error: order soon is not one of [fifo, lifo, edf, laxity, paper, pace]" + try_);
        run(settings + "7,0,5\n", 2,
                "error: request 20 is 7,0,5, not BIRTH,CLASS and 3 service times, CLASS below 1" + try_);
        run(settings.replaceFirst("\"parts\":1", "\"parts\":2").replaceAll("(?m)^([0-9].*)$", "$1,5"), 2,
                "error: stage S1: parts 2 is not 1, services in series\n  try: the world of tonic or of Storm for units\n");
    }

    /** Twenty requests, one each millisecond, with a millisecond of work at each of three services. */
    private static String plan(String order, String shedding, long sloNanos) {
        StringBuilder plan = new StringBuilder();
        plan.append("{\"order\":\"").append(order).append("\",\"shedding\":\"").append(shedding);
        plan.append("\",\"age_max_ns\":1000000000,\"capacity\":100,\"stages\":[");
        for (int stage = 1; stage <= 3; stage++) {
            plan.append(stage == 1 ? "" : ",").append("{\"name\":\"S").append(stage);
            plan.append("\",\"threads\":1,\"parts\":1,\"reserve_ns\":0,\"partial\":false}");
        }
        plan.append("],\"slos\":[{\"name\":\"all\",\"slo_ns\":").append(sloNanos).append("}]}\n");
        for (int request = 0; request < REQUESTS; request++) {
            plan.append(request * 1_000_000).append(",0,1000000,1000000,1000000\n");
        }
        return plan.toString();
    }

    private static List<String> run(String plan, int status, String error) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        ByteArrayInputStream in = new ByteArrayInputStream(plan.getBytes(StandardCharsets.UTF_8));
        int got = Runner.run(Dubbo::run, in, out, new PrintStream(errors), () -> {});
        assertEquals(error, errors.toString(StandardCharsets.UTF_8));
        assertEquals(status, got);
        return new ArrayList<>(out.toString(StandardCharsets.UTF_8).lines().toList());
    }

    /** The columns of the only line that begins with {@code start}. */
    private static String[] only(List<String> reported, String start) {
        List<String> found = reported.stream().filter(line -> line.startsWith(start)).toList();
        assertEquals(1, found.size(), start + " in " + reported);
        return found.get(0).split(",");
    }
}
