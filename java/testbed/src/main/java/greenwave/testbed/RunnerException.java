package greenwave.testbed;

/** Reason why a runner cannot run: the given value, the valid values, and advice. */
final class RunnerException extends Exception {
    private static final long serialVersionUID = 1;

    private final String attempt;

    /** {@code error} in one line; {@code attempt} in one line. */
    RunnerException(String error, String attempt) {
        super(error);
        this.attempt = attempt;
    }

    /** The two lines. */
    String lines() {
        return "error: " + getMessage() + "\n  try: " + attempt + "\n";
    }
}
