package greenwave.dubbo;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Shedding;
import greenwave.deadline.Visit;
import greenwave.deadline.thread.Deadlines;
import java.lang.reflect.Field;
import java.util.OptionalLong;
import org.apache.dubbo.common.logger.ErrorTypeAwareLogger;
import org.apache.dubbo.common.logger.LoggerFactory;
import org.apache.dubbo.remoting.Channel;
import org.apache.dubbo.remoting.Decodeable;
import org.apache.dubbo.remoting.RemotingException;
import org.apache.dubbo.remoting.exchange.Request;
import org.apache.dubbo.remoting.exchange.Response;
import org.apache.dubbo.remoting.transport.dispatcher.ChannelEventRunnable;
import org.apache.dubbo.rpc.Invocation;

/**
 * A request on its way through the pool: its receipt is its arrival, so the wait counts.
 *
 * <p>Dubbo hands a pool runnables that keep their request to themselves, so two of their fields are read by
 * reflection; where a later Dubbo names them otherwise, requests are ordered as if they had no deadline,
 * and a warning says so once. The request is decoded here, on the I/O thread (as {@code decode.in.io} has it):
 * its budget lies behind its arguments.
 */
final class Call implements Runnable, DeadlineQueue.Entry {
    private static final ErrorTypeAwareLogger LOGGER = LoggerFactory.getErrorTypeAwareLogger(Call.class);
    /** Where the provider's filter finds it in the invocation, which keeps it to this process. */
    private static final String KEY = "greenwave.call";

    private static final Field MESSAGE = field("message");
    private static final Field CHANNEL = field("channel");

    private final Runnable event;
    private final Channel channel;
    private final Request request;
    private final Server server;
    private final String kind;
    private final Visit visit;
    private final long leftNanos;
    private final long serviceNanos;

    private Call(Runnable event, Channel channel, Request request, Server server, Invocation invocation) {
        long now = Deadlines.now();
        this.event = event;
        this.channel = channel;
        this.request = request;
        this.server = server;
        this.kind = Server.kind(invocation);
        this.visit = server.arrive(now, invocation);
        this.leftNanos = visit.remaining(now).leftNanos();
        this.serviceNanos = server.expected(kind);
        invocation.put(KEY, this);
    }

    /** {@code event} as the request it holds; as it is when it holds none. */
    static Runnable of(Runnable event, Server server) {
        try {
            if (event instanceof ChannelEventRunnable
                    && MESSAGE != null
                    && CHANNEL != null
                    && MESSAGE.get(event) instanceof Request request
                    && !request.isEvent()) {
                if (request.getData() instanceof Decodeable decodeable) {
                    decodeable.decode();
                }
                if (request.getData() instanceof Invocation invocation) {
                    return new Call(event, (Channel) CHANNEL.get(event), request, server, invocation);
                }
            }
        } catch (Exception unreadable) {
            LOGGER.warn("0-0", "", "", "a request is ordered as if it had no deadline", unreadable);
        }
        return event;
    }

    /** The call that {@code invocation} came in, null when it came through another pool. */
    static Call of(Invocation invocation) {
        return invocation.get(KEY) instanceof Call call ? call : null;
    }

    Visit visit() {
        return visit;
    }

    @Override
    public void run() {
        event.run();
    }

    /** Answers with a timeout, as Dubbo's own, and the reason. */
    void shed(Shedding.Reason reason) {
        server.onShed();
        if (!request.isTwoWay()) {
            return;
        }
        Response response = new Response(request.getId(), request.getVersion());
        response.setStatus(Response.SERVER_TIMEOUT);
        response.setErrorMessage(kind + " was not served: " + reason);
        try {
            channel.send(response);
        } catch (RemotingException | RuntimeException gone) {
            LOGGER.debug("a caller has gone before its answer: " + gone.getMessage());
        }
    }

    @Override
    public OptionalLong leftNanos() {
        return OptionalLong.of(leftNanos);
    }

    @Override
    public long serviceNanos() {
        return serviceNanos;
    }

    private static Field field(String name) {
        try {
            Field field = ChannelEventRunnable.class.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (ReflectiveOperationException | RuntimeException unknown) {
            LOGGER.warn("0-0", "", "", "requests are ordered as if they had no deadline", unknown);
            return null;
        }
    }
}
