package greenwave.deadline;

/**
 * Causes: the reasons for which a request gets no answer of its handler.
 *
 * <p>One closed set, with the same names in response fields, gRPC metadata, messages of Dubbo, counters and log
 * events of every plug-in, in Rust and Java. The test vectors are {@code spec/deadline/causes.json}.
 */
public enum Cause {
    /** No time left before the handler began. */
    EXPIRED("expired", 504, 4, "its deadline has passed"),
    /** Refused before the handler began: too little time left. */
    INFEASIBLE("infeasible", 504, 4, "its remaining budget is less than its expected service time"),
    /** Refused before the handler began: the queue was full. */
    QUEUE_FULL("queue-full", 503, 8, "the request queue is full"),
    /** The handler was stopped at the deadline; its work may be done in part. */
    ABORTED("aborted", 504, 4, "its handler was stopped at the deadline"),
    /** A called service did not answer in time. */
    UPSTREAM_TIMEOUT("upstream-timeout", 504, 4, "a service that it called did not answer in time"),
    /** A called service failed, or was not reached. */
    UPSTREAM_FAILED("upstream-failed", 502, 14, "a service that it called failed");

    /** Name of the HTTP response field, of the gRPC metadata and of Dubbo's attachment: a token, the cause's name. */
    public static final String HEADER = "greenwave-cause";

    private static final int GATEWAY_TIMEOUT = 504;
    private static final int DEADLINE_EXCEEDED = 4;

    private final String word;
    private final int httpStatus;
    private final int grpcCode;
    private final String text;

    Cause(String word, int httpStatus, int grpcCode, String text) {
        this.word = word;
        this.httpStatus = httpStatus;
        this.grpcCode = grpcCode;
        this.text = text;
    }

    /** Name, as in the field, in counters and in logs. */
    public String word() {
        return word;
    }

    /** HTTP status. */
    public int httpStatus() {
        return httpStatus;
    }

    /** Code of the gRPC status. */
    public int grpcCode() {
        return grpcCode;
    }

    /** True if the request was refused before its handler began, so that it has had no effect. */
    public boolean isRefusal() {
        return this == EXPIRED || this == INFEASIBLE || this == QUEUE_FULL;
    }

    /** Cause in a field with the value {@code text}; parameters are ignored. Null for other names. */
    public static Cause parse(String text) {
        int end = text.indexOf(';');
        String name = (end < 0 ? text : text.substring(0, end)).replaceAll("^[ \\t]+|[ \\t]+$", "");
        for (Cause cause : values()) {
            if (cause.word.equals(name)) {
                return cause;
            }
        }
        return null;
    }

    /**
     * Cause of a response from a called service with this HTTP status and without the field: 504 is a timeout,
     * another 5xx a failure; null for others.
     */
    public static Cause ofHttpStatus(int status) {
        if (status == GATEWAY_TIMEOUT) {
            return UPSTREAM_TIMEOUT;
        }
        return status >= 500 && status < 600 ? UPSTREAM_FAILED : null;
    }

    /**
     * The same of a gRPC status: DEADLINE_EXCEEDED is a timeout; UNKNOWN, INTERNAL, UNAVAILABLE and DATA_LOSS are
     * failures. The other codes are answers of the service.
     */
    public static Cause ofGrpcCode(int code) {
        return switch (code) {
            case DEADLINE_EXCEEDED -> UPSTREAM_TIMEOUT;
            case 2, 13, 14, 15 -> UPSTREAM_FAILED;
            default -> null;
        };
    }

    /** Cause for a caller, if a called service answered with this one: a timeout, or a failure. */
    public Cause seenFromDownstream() {
        return this == UPSTREAM_TIMEOUT || this == ABORTED ? UPSTREAM_TIMEOUT : UPSTREAM_FAILED;
    }

    /** One line of text. */
    @Override
    public String toString() {
        return text;
    }
}
