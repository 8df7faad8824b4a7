package greenwave.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The runner on real Storm follows the protocol of spec/testbed.md. */
class StormTest {
    private static final int REQUESTS = 30;
    private static final int PARTS = 3;
    private static final String SETTINGS = "{\"order\":\"edf\",\"shedding\":\"expired\",\"age_max_ns\":1000000000,"
            + "\"capacity\":100,\"stages\":["
            + "{\"name\":\"S\",\"threads\":1,\"parts\":1,\"reserve_ns\":0,\"partial\":false},"
            + "{\"name\":\"W\",\"threads\":2,\"parts\":3,\"reserve_ns\":500000000,\"partial\":true},"
            + "{\"name\":\"R\",\"threads\":1,\"parts\":1,\"reserve_ns\":0,\"partial\":false}],"
            + "\"slos\":[{\"name\":\"patient\",\"slo_ns\":60000000000},{\"name\":\"hopeless\",\"slo_ns\":1},"
            + "{\"name\":\"urgent\",\"slo_ns\":3000000000}]}\n";

    /**
     * Of ten requests in a row the fourth is infeasible, and the last has a worker that is too slow for it.
     */
    @Test
    void eachRequestIsAnsweredWithItsPartsInTimeOrFails() throws Exception {
        StringBuilder plan = new StringBuilder(SETTINGS);
        for (int request = 0; request < REQUESTS; request++) {
            int slo = request % 10 == 3 ? 1 : request % 10 == 9 ? 2 : 0;
            plan.append(request * 1_000_000L).append(',').append(slo).append(",1000000,1000000,1000000,");
            plan.append(slo == 2 ? 8_000_000_000L : 1_000_000L).append(",1000000,").append(100 + request).append('\n');
        }
        List<String> reported;
        try (FakeServers neighbours = new FakeServers()) {
            reported = run(new Storm(ExternalWork.of(neighbours.arguments())), plan.toString());
            for (int request = 0; request < REQUESTS; request++) {
                boolean isServed = request % 10 != 3;
                String first = "partition=0&query=" + (100 + request);
                assertEquals(isServed, neighbours.requests.contains(first), first);
                assertEquals(isServed, neighbours.requests.contains("request:" + request), "written " + request);
            }
        }
        assertEquals("ready", reported.get(0));
        assertTrue(reported.get(reported.size() - 1).matches("late,[0-9]+"), reported.get(reported.size() - 1));
        for (int request = 0; request < REQUESTS; request++) {
            String[] end = only(reported, "end," + request + ',');
            String how = end[2] + ',' + end[4] + ',' + end[5];
            String[] service = only(reported, "stage," + request + ",0,0,");
            if (request % 10 == 3) {
                assertEquals("dropped", service[4]);
                assertEquals("failed,0,1", how);
                continue;
            }
            assertEquals("served", service[4]);
            boolean isLate = request % 10 == 9;
            assertEquals(isLate ? "answered,2,3" : "answered,3,3", how);
            String[] last = only(reported, "stage," + request + ",2,0,");
            for (int part = 0; part < (isLate ? PARTS - 1 : PARTS); part++) {
                String[] worker = only(reported, "stage," + request + ",1," + part + ',');
                assertEquals("served", worker[4]);
                assertTrue(nanos(worker[7]) >= 1_000_000, "its work takes 1 ms");
                assertTrue(nanos(worker[5]) >= nanos(service[5]), "time is counted over all stages");
                assertTrue(nanos(last[5]) >= nanos(worker[5]));
            }
            assertTrue(nanos(end[3]) >= nanos(last[5]));
        }
    }

    private static long nanos(String text) {
        return Long.parseLong(text);
    }

    @Test
    void errorsNameTheValueAndTheRemedy() throws Exception {
        String unit = "{\"name\":\"V\",\"threads\":1,\"parts\":3,\"reserve_ns\":0,\"partial\":true}";
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        String plan = SETTINGS.replace("\"stages\":[", "\"stages\":[" + unit + ',');
        Storm storm = new Storm(ExternalWork.of(List.of()));
        assertEquals(Runner.CANNOT, Runner.run(storm, in(plan), System.err, new PrintStream(errors), () -> {}));
        String reported = errors.toString(StandardCharsets.UTF_8);
        assertEquals(
                "error: stage W: parts 3 is not 1, in a second unit\n  try: one unit, services before and after it\n",
                reported);
        RunnerException unable = assertThrows(RunnerException.class, () -> ExternalWork.of(List.of("hello")));
        assertEquals("error: argument hello is not one of search=URL, redis=HOST:PORT\n  try: one of these\n", unable.lines());
        assertThrows(RunnerException.class, () -> ExternalWork.of(List.of("redis=127.0.0.1:1")));
    }

    private static List<String> run(Runner runner, String plan) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        int status = Runner.run(runner, in(plan), out, new PrintStream(errors), () -> {});
        assertEquals(0, status, errors.toString(StandardCharsets.UTF_8));
        return out.toString(StandardCharsets.US_ASCII).lines().toList();
    }

    private static ByteArrayInputStream in(String plan) {
        return new ByteArrayInputStream(plan.getBytes(StandardCharsets.UTF_8));
    }

    private static String[] only(List<String> reported, String prefix) {
        List<String> lines = reported.stream().filter(line -> line.startsWith(prefix)).toList();
        assertEquals(1, lines.size(), prefix + " " + reported);
        return lines.get(0).split(",");
    }
}
