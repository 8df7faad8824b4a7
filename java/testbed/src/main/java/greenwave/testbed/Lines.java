package greenwave.testbed;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * What a runner says, written by a thread of its own so that no service waits for who listens.
 *
 * <p>Holds what has not been written, at most a plan's lines. When nobody listens any more the process ends.
 */
final class Lines implements AutoCloseable {
    private final BlockingQueue<String> said = new LinkedBlockingQueue<>();
    private final BufferedWriter writer;
    private final Runnable onDeaf;
    private final Thread thread = new Thread(this::write, "lines");

    /** Lines to {@code out}; {@code onDeaf} runs when it cannot be written to. */
    Lines(OutputStream out, Runnable onDeaf) {
        this.writer = new BufferedWriter(new OutputStreamWriter(out, StandardCharsets.US_ASCII));
        this.onDeaf = onDeaf;
        thread.setDaemon(true);
        thread.start();
    }

    /** Says {@code line}, after those said before. */
    void say(String line) {
        said.add(line);
    }

    /** Returns when all has been written. */
    @Override
    public void close() {
        say(END);
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void write() {
        try {
            for (String line = said.take(); !line.equals(END); line = said.take()) {
                writer.write(line);
                writer.write('\n');
                if (said.isEmpty()) {
                    writer.flush();
                }
            }
            writer.flush();
        } catch (IOException | InterruptedException deaf) {
            onDeaf.run();
        }
    }

    /** No line is empty. */
    private static final String END = "";
}
