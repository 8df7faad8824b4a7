package greenwave.grpc;

import greenwave.deadline.Cause;
import io.grpc.Metadata;
import io.grpc.Status;

/** The {@link Cause} of a failed call, in its trailers under {@link Cause#HEADER}. */
public final class Causes {
    private static final Metadata.Key<String> KEY = CallExecutors.key(Cause.HEADER);

    private Causes() {}

    /** Status and trailers of a call that ends without its handler's answer. */
    record Ending(Status status, Metadata trailers) {}

    /** The ending of a call with {@code cause}, which {@code text} describes. */
    static Ending ending(Cause cause, String text) {
        Metadata trailers = new Metadata();
        write(trailers, cause);
        return new Ending(Status.fromCodeValue(cause.grpcCode()).withDescription(text), trailers);
    }

    /** Sets the cause in {@code trailers}. */
    static void write(Metadata trailers, Cause cause) {
        trailers.discardAll(KEY);
        trailers.put(KEY, cause.word());
    }

    /** The cause in {@code trailers}; null without a readable one. */
    static Cause read(Metadata trailers) {
        Iterable<String> lines = trailers.getAll(KEY);
        Cause cause = null;
        if (lines != null) {
            for (String line : lines) {
                if (cause != null) {
                    return null; // Two lines are a list, which is not a token.
                }
                cause = Cause.parse(line);
            }
        }
        return cause;
    }

    /**
     * The cause of a call that ended with {@code status} and {@code trailers}: the one in the trailers, else a timeout
     * or a failure by the status. Null for an answer of the service, whether it is a success or an error.
     */
    public static Cause of(Status status, Metadata trailers) {
        Cause told = status.isOk() ? null : read(trailers);
        return told != null ? told : Cause.ofGrpcCode(status.getCode().value());
    }

    /** The cause of a call that failed with {@code failure}, such as a {@link io.grpc.StatusRuntimeException}. */
    public static Cause of(Throwable failure) {
        Metadata trailers = Status.trailersFromThrowable(failure);
        return of(Status.fromThrowable(failure), trailers == null ? new Metadata() : trailers);
    }
}
