package greenwave.dubbo;

import greenwave.deadline.Gate;
import greenwave.deadline.Shedding;
import greenwave.deadline.thread.Call;
import greenwave.deadline.thread.Deadlines;
import java.lang.reflect.Field;
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
 * A request in the pool. It arrives when it is received, so its wait in the queue counts.
 *
 * <p>Dubbo hands a pool runnables that do not expose their requests, so two of their fields are read by
 * reflection. If a later version of Dubbo names them differently, requests are ordered as if they had no
 * deadline, and one warning is logged. The request is decoded here, on the I/O thread (as with {@code
 * decode.in.io}), since its budget comes after its arguments.
 */
final class DubboCall extends Call {
    private static final ErrorTypeAwareLogger LOGGER = LoggerFactory.getErrorTypeAwareLogger(DubboCall.class);
    /** Key of the invocation's attribute for the provider's filter; local to this process. */
    private static final String KEY = "greenwave.arrival";

    private static final Field MESSAGE = field("message");
    private static final Field CHANNEL = field("channel");

    private final Runnable event;
    private final Channel channel;
    private final Request request;

    private DubboCall(
            long nowNanos, Gate gate, Gate.Arrival arrival, Runnable event, Channel channel, Request request) {
        super(nowNanos, gate, arrival);
        this.event = event;
        this.channel = channel;
        this.request = request;
    }

    /** The request in {@code event}, as a call; {@code event} itself if it holds no request. */
    static Runnable of(Runnable event, Gate gate) {
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
                    long now = Deadlines.now();
                    Gate.Arrival arrival = Servers.arrive(gate, now, invocation);
                    invocation.put(KEY, arrival);
                    return new DubboCall(now, gate, arrival, event, (Channel) CHANNEL.get(event), request);
                }
            }
        } catch (Exception unreadable) {
            LOGGER.warn("0-0", "", "", "a request is ordered as if it had no deadline", unreadable);
        }
        return event;
    }

    /** Arrival of {@code invocation}; null if another pool received it. */
    static Gate.Arrival arrival(Invocation invocation) {
        return invocation.get(KEY) instanceof Gate.Arrival arrival ? arrival : null;
    }

    @Override
    public void run() {
        event.run();
    }

    /**
     * Answers with the statuses that Dubbo itself uses: pool exhausted if the queue is full, else timeout.
     * The message gives the {@linkplain Causes cause}.
     */
    @Override
    protected void answer(Shedding.Reason reason) {
        if (!request.isTwoWay()) {
            return;
        }
        Response response = new Response(request.getId(), request.getVersion());
        boolean full = reason == Shedding.Reason.FULL;
        response.setStatus(full ? Response.SERVER_THREADPOOL_EXHAUSTED_ERROR : Response.SERVER_TIMEOUT);
        response.setErrorMessage(Causes.text(arrival().method() + " was not served: " + reason, reason.cause()));
        try {
            channel.send(response);
        } catch (RemotingException | RuntimeException gone) {
            LOGGER.debug("a caller has gone before its answer: " + gone.getMessage());
        }
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
