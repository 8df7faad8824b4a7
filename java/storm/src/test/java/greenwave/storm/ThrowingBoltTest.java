package greenwave.storm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A bolt that throws is handled by Storm. Runs in a process of its own, since Storm ends that. */
//~ java: Storm: a throwing bolt ends its worker; gathering for the same worker is refused
class ThrowingBoltTest {
    @TempDir
    Path folder;

    @Test
    void aThrowingBoltEndsItsWorkerAsInStorm() throws Exception {
        Path log = folder.resolve("log");
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Djava.io.tmpdir=" + folder,
                        "-cp",
                        System.getProperty("java.class.path"),
                        ThrowingTopology.class.getName())
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
        try {
            assertTrue(process.waitFor(4 * StormCluster.LIMIT_S, TimeUnit.SECONDS), "neither died nor gave up");
            String said = Files.readString(log);
            assertEquals(1, process.exitValue(), said);
            assertTrue(said.contains("broken on purpose") && said.contains("Worker died"), said);
        } finally {
            process.destroyForcibly();
        }
    }
}
