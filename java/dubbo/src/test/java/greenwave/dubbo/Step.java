package greenwave.dubbo;

import java.util.concurrent.CompletableFuture;

/** The service of the tests; each test sets its behaviour. */
public interface Step {
    /** Answers at the end of the method. */
    String go(String text);

    /** Answers when its future completes. */
    CompletableFuture<String> goAsync(String text);
}
