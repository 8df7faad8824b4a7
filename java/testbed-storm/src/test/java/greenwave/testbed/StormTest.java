package greenwave.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The runner speaks as spec/testbed.md says, and real Storm is what it speaks of. */
class StormTest {
    private static final int REQUESTS = 30;
    private static final int PARTS = 3;
    private static final String SETTINGS = "{\"order\":\"edf\",\"shedding\":\"expired\",\"patience_ns\":1000000000,"
            + "\"capacity\":100,\"stages\":["
            + "{\"name\":\"S\",\"threads\":1,\"parts\":1,\"reserve_ns\":0,\"partial\":false},"
            + "{\"name\":\"W\",\"threads\":2,\"parts\":3,\"reserve_ns\":1000000,\"partial\":true}],"
            + "\"slos\":[{\"name\":\"patient\",\"slo_ns\":60000000000},{\"name\":\"hopeless\",\"slo_ns\":1},"
            + "{\"name\":\"urgent\",\"slo_ns\":1000000000}]}\n";

    /** Of each ten requests the fourth is hopeless, and the last has a worker that is too slow for it. */
    @Test
    void eachRequestIsAnsweredWithItsPartsInTimeOrFails() {
        StringBuilder plan = new StringBuilder(SETTINGS);
        for (int request = 0; request < REQUESTS; request++) {
            int slo = request % 10 == 3 ? 1 : request % 10 == 9 ? 2 : 0;
            plan.append(request * 1_000_000L).append(',').append(slo).append(",1000000,1000000,1000000,");
            plan.append(slo == 2 ? 2_000_000_000L : 1_000_000L).append('\n');
        }
        List<String> said = run(plan.toString());
        assertEquals("ready", said.get(0));
        assertTrue(said.get(said.size() - 1).matches("late,[0-9]+"), said.get(said.size() - 1));
        for (int request = 0; request < REQUESTS; request++) {
            String[] end = only(said, "end," + request + ',');
            String how = end[2] + ',' + end[4] + ',' + end[5];
            String[] service = only(said, "stage," + request + ",0,0,");
            if (request % 10 == 3) {
                assertEquals("dropped", service[4]);
                assertEquals("failed,0,1", how);
                continue;
            }
            assertEquals("served", service[4]);
            boolean isLate = request % 10 == 9;
            assertEquals(isLate ? "answered,2,3" : "answered,3,3", how);
            for (int part = 0; part < (isLate ? PARTS - 1 : PARTS); part++) {
                String[] worker = only(said, "stage," + request + ",1," + part + ',');
                assertEquals("served", worker[4]);
                assertTrue(Long.parseLong(worker[7]) >= 1_000_000, "its work takes 1 ms");
                assertTrue(Long.parseLong(worker[5]) >= Long.parseLong(service[5]), "time is counted over all stages");
                assertTrue(isLate || Long.parseLong(end[3]) >= Long.parseLong(worker[5]));
            }
        }
    }

    @Test
    void aUnitBeforeTheEndIsRefusedWithTheWayOut() {
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        String unit = "{\"name\":\"W\",\"threads\":1,\"parts\":3,\"reserve_ns\":0,\"partial\":true}";
        String plan = SETTINGS.replace("\"stages\":[", "\"stages\":[" + unit + ',');
        int status = Runner.run(Storm::run, in(plan), new ByteArrayOutputStream(), new PrintStream(errors), () -> {});
        assertEquals(Runner.CANNOT, status);
        assertEquals(
                "error: stage W: parts 3 is not 1, and it is not the last\n  try: services first, and one unit at the end\n",
                errors.toString(StandardCharsets.UTF_8));
    }

    private static List<String> run(String plan) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        int status = Runner.run(Storm::run, in(plan), out, new PrintStream(errors), () -> {});
        assertEquals(0, status, errors.toString(StandardCharsets.UTF_8));
        return out.toString(StandardCharsets.US_ASCII).lines().toList();
    }

    private static ByteArrayInputStream in(String plan) {
        return new ByteArrayInputStream(plan.getBytes(StandardCharsets.UTF_8));
    }

    private static String[] only(List<String> said, String prefix) {
        List<String> lines = said.stream().filter(line -> line.startsWith(prefix)).toList();
        assertEquals(1, lines.size(), prefix + " " + said);
        return lines.get(0).split(",");
    }
}
