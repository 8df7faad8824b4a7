package greenwave.testbed;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** What all runners share: a plan in, lines out, an exit status. */
@FunctionalInterface
interface Runner {
    /**
     * Starts the services of {@code plan}, says {@code ready} and runs it.
     *
     * @throws Exception when it cannot; an {@link Unable} says why
     */
    void run(Plan plan, Lines lines) throws Exception;

    /** Whether requests of the plan may have queries. */
    default boolean searches() {
        return false;
    }

    /** The process: runs on stdin and stdout, and ends with the status. */
    static void main(Runner runner) {
        main(() -> runner);
    }

    /** Who makes a runner of the process's arguments. */
    interface Maker {
        /** The runner; an {@link Unable} says why there is none. */
        Runner make() throws Unable;
    }

    /** The process, of a runner that {@code maker} makes. */
    static void main(Maker maker) {
        OutputStream out = new FileOutputStream(FileDescriptor.out);
        // What a library prints is no line of ours.
        System.setOut(System.err);
        int status = CANNOT;
        try {
            status = run(maker.make(), System.in, out, System.err, () -> Runtime.getRuntime().halt(CANNOT));
        } catch (Unable unable) {
            System.err.print(unable.lines());
            System.err.flush();
        }
        Runtime.getRuntime().halt(status);
    }

    /** Runs on {@code in} and {@code out}; {@code onDeaf} runs when nobody reads that. Returns the exit status. */
    static int run(Runner runner, InputStream in, OutputStream out, PrintStream errors, Runnable onDeaf) {
        try (Lines lines = new Lines(out, onDeaf)) {
            BufferedReader told = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
            runner.run(Plan.read(told, runner.searches()), lines);
            return 0;
        } catch (Unable unable) {
            errors.print(unable.lines());
        } catch (IOException unread) {
            errors.print(new Unable("the plan cannot be read: " + unread.getMessage(), "again").lines());
        } catch (Exception unforeseen) {
            errors.print(new Unable(unforeseen.toString(), "java -version: 17 and later").lines());
        }
        errors.flush();
        return CANNOT;
    }

    /** Exit status of what could not be done. */
    int CANNOT = 2;
}
