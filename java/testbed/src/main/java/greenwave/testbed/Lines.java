package greenwave.testbed;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Output of a runner, written by a separate thread, so that no service waits for the reader.
 *
 * <p>Holds the lines that are not written yet, at most all lines of a plan. The process ends once the reader
 * has closed the pipe.
 */
final class Lines implements AutoCloseable {
    private final BlockingQueue<String> reported = new LinkedBlockingQueue<>();
    private final BufferedWriter writer;
    private final Runnable onClosed;
    private final Thread thread = new Thread(this::write, "lines");

    /** Writes to {@code out}; {@code onClosed} runs if that fails. */
    Lines(OutputStream out, Runnable onClosed) {
        this.writer = new BufferedWriter(new OutputStreamWriter(out, StandardCharsets.US_ASCII));
        this.onClosed = onClosed;
        thread.setDaemon(true);
        thread.start();
    }

    /** Queues {@code line} for writing, after the previous ones. */
    void print(String line) {
        reported.add(line);
    }

    /** Returns when all lines have been written. */
    @Override
    public void close() {
        print(END);
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void write() {
        try {
            for (String line = reported.take(); !line.equals(END); line = reported.take()) {
                writer.write(line);
                writer.write('\n');
                if (reported.isEmpty()) {
                    writer.flush();
                }
            }
            writer.flush();
        } catch (IOException | InterruptedException deaf) {
            onClosed.run();
        }
    }

    /** No line is empty. */
    private static final String END = "";
}
