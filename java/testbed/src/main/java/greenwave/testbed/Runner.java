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

/** Common interface of runners, and their main program: a plan on stdin, lines on stdout, an exit status. */
@FunctionalInterface
interface Runner {
    /**
     * Starts the services of {@code plan}, prints {@code ready} and runs the plan.
     *
     * @throws Exception if it cannot; an {@link RunnerException} gives the reason
     */
    void run(Plan plan, Lines lines) throws Exception;

    /** True if requests of the plan may have queries. */
    default boolean searches() {
        return false;
    }

    /** The main program: runs on stdin and stdout, and exits with the status. */
    static void main(Runner runner) {
        main(() -> runner);
    }

    /** Factory of a runner from the process's arguments. */
    interface Factory {
        /** The runner; an {@link RunnerException} gives the reason if there is none. */
        Runner make() throws RunnerException;
    }

    /** The main program, with the runner that {@code maker} makes. */
    static void main(Factory maker) {
        OutputStream out = new FileOutputStream(FileDescriptor.out);
        // Output of libraries is not part of the protocol.
        System.setOut(System.err);
        int status = CANNOT;
        try {
            status = run(maker.make(), System.in, out, System.err, () -> Runtime.getRuntime().halt(CANNOT));
        } catch (RunnerException unable) {
            System.err.print(unable.lines());
            System.err.flush();
        }
        Runtime.getRuntime().halt(status);
    }

    /** Runs on {@code in} and {@code out}; {@code onClosed} runs when {@code out} has no reader. Returns the exit status. */
    static int run(Runner runner, InputStream in, OutputStream out, PrintStream errors, Runnable onClosed) {
        try (Lines lines = new Lines(out, onClosed)) {
            BufferedReader input = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
            runner.run(Plan.read(input, runner.searches()), lines);
            return 0;
        } catch (RunnerException unable) {
            errors.print(unable.lines());
        } catch (IOException unread) {
            errors.print(new RunnerException("the plan cannot be read: " + unread.getMessage(), "again").lines());
        } catch (Exception unforeseen) {
            errors.print(new RunnerException(unforeseen.toString(), "java -version: 17 and later").lines());
        }
        errors.flush();
        return CANNOT;
    }

    /** Exit status if the plan could not be run. */
    int CANNOT = 2;
}
