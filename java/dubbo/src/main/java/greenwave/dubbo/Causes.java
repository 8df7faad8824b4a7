package greenwave.dubbo;

import greenwave.deadline.Cause;
import org.apache.dubbo.rpc.RpcException;

/**
 * The {@link Cause} of a failed call, at the end of its message: {@code [greenwave-cause: expired]}.
 *
 * <p>An error of the protocol {@code dubbo} has a status and a message, but no attachments.
 */
public final class Causes {
    private static final String BEFORE = "[" + Cause.HEADER + ": ";

    private Causes() {}

    /** {@code text} with {@code cause}. */
    static String text(String text, Cause cause) {
        return text + " " + BEFORE + cause.word() + "]";
    }

    /** An exception with {@code cause}, and the code that Dubbo uses itself: a limit for a full queue, else a timeout. */
    static RpcException exception(Cause cause, String text) {
        boolean full = cause == Cause.QUEUE_FULL;
        return new RpcException(
                full ? RpcException.LIMIT_EXCEEDED_EXCEPTION : RpcException.TIMEOUT_EXCEPTION, text(text, cause));
    }

    /**
     * The cause of a call that failed with {@code failure}: the one in a message, else a timeout or a failure by the
     * code of a {@link RpcException}. Null for an exception of the called service.
     */
    public static Cause of(Throwable failure) {
        Cause byCode = null;
        Throwable each = failure;
        for (int depth = 0; each != null && depth < DEPTH_MAX; each = each.getCause(), depth++) {
            Cause told = in(each.getMessage());
            if (told != null) {
                return told;
            }
            if (each instanceof RpcException rpc && byCode == null && !rpc.isBiz()) {
                byCode = rpc.isTimeout() ? Cause.UPSTREAM_TIMEOUT : Cause.UPSTREAM_FAILED;
            }
        }
        return byCode;
    }

    private static Cause in(String message) {
        int start = message == null ? -1 : message.lastIndexOf(BEFORE);
        int end = start < 0 ? -1 : message.indexOf(']', start);
        return end < 0 ? null : Cause.parse(message.substring(start + BEFORE.length(), end));
    }

    /** Exceptions within one another that are read; a chain may be a loop. */
    private static final int DEPTH_MAX = 16;
}
