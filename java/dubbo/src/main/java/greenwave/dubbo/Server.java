package greenwave.dubbo;

import greenwave.deadline.Budget;
import greenwave.deadline.DeadlineQueue.Settings;
import greenwave.deadline.Fault;
import greenwave.deadline.History;
import greenwave.deadline.Intake;
import greenwave.deadline.Limits;
import greenwave.deadline.Order;
import greenwave.deadline.Shedding;
import greenwave.deadline.Visit;
import greenwave.deadline.codec.BudgetField;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.rpc.Invocation;

/**
 * What one listening port knows: what it grants, how long its methods take, what it counted.
 *
 * <p>Made from the protocol's parameters: {@code deadline.default} and {@code deadline.longest} (ms) and
 * {@code deadline.trusted} for {@link Limits}; {@code queues}, {@code deadline.order}, {@code
 * deadline.shedding} and {@code deadline.patience} (ms) for the queue. One that is not given has the
 * default of {@link Limits} and {@link Settings}. Threads share one.
 */
public final class Server {
    private static final Map<Integer, Server> SERVERS = new ConcurrentHashMap<>();

    private final Intake intake;
    private final Settings settings;
    private final History<String> history = new History<>(METHODS_MAX);
    private final AtomicLong shed = new AtomicLong();

    private Server(URL url) {
        Limits limits = Limits.DEFAULT;
        intake = new Intake(new Limits(
                millis(url, "deadline.default", limits.defaultNanos()),
                millis(url, "deadline.longest", limits.longestNanos()),
                url.getParameter("deadline.trusted", limits.trusted())));
        Settings standard = Settings.DEFAULT;
        int queues = url.getParameter(CommonConstants.QUEUES_KEY, 0);
        settings = new Settings(
                queues > 0 ? queues : standard.capacity(),
                named(url, "deadline.order", standard.order()),
                named(url, "deadline.shedding", standard.shedding()),
                millis(url, "deadline.patience", standard.patienceNanos()));
    }

    /**
     * The server on {@code port} of this process, null before its first request or thread.
     */
    public static Server on(int port) {
        return SERVERS.get(port);
    }

    /** The server that {@code url} describes, as it was opened, or opened now. */
    static Server at(URL url) {
        return SERVERS.computeIfAbsent(url.getPort(), port -> new Server(url));
    }

    /** The server that {@code url} describes, anew. */
    static Server open(URL url) {
        Server server = new Server(url);
        SERVERS.put(url.getPort(), server);
        return server;
    }

    /** How many requests got the default for {@code fault}. */
    public long faults(Fault fault) {
        return intake.faults(fault);
    }

    /** How many requests got less than they asked for, their peers not being trusted. */
    public long shortened() {
        return intake.shortened();
    }

    /** How many requests were answered without being served. */
    public long shed() {
        return shed.get();
    }

    /**
     * What half of the calls of {@code method} took no longer than, in nanoseconds; 0 when not known. {@code
     * service} is its Dubbo key: {@code [group/]interface:version}, version 0.0.0 where it has none.
     */
    public long serviceNanos(String service, String method) {
        return expected(service + '.' + method);
    }

    Settings settings() {
        return settings;
    }

    void onShed() {
        shed.incrementAndGet();
    }

    /**
     * {@code invocation} arrived at {@code nowNanos}. Its budget is what it carries; a peer that knows nothing
     * of budgets still says after how many milliseconds it gives up ({@code timeout}), which is one too.
     */
    Visit arrive(long nowNanos, Invocation invocation) {
        String budget = text(invocation, BudgetField.HEADER);
        String timeout = text(invocation, CommonConstants.TIMEOUT_KEY);
        Budget accepted = intake.accept(new Intake.Received(budget, null, timeout));
        return Visit.arrive(nowNanos, accepted, 0);
    }

    long expected(String kind) {
        synchronized (history) {
            return history.estimate(kind).p50Nanos();
        }
    }

    void served(String kind, long serviceNanos) {
        synchronized (history) {
            history.record(kind, serviceNanos);
        }
    }

    /** What service times are told apart by: the method of a service, with its group and version. */
    static String kind(Invocation invocation) {
        return invocation.getTargetServiceUniqueName() + '.' + invocation.getMethodName();
    }

    /** An attachment as text; one of another type is as garbled as an empty text. */
    private static String text(Invocation invocation, String key) {
        Object value = invocation.getObjectAttachmentWithoutConvert(key);
        return value == null || value instanceof String ? (String) value : "";
    }

    private static long millis(URL url, String key, long otherwiseNanos) {
        long millis = url.getParameter(key, -1L);
        return millis < 0 ? otherwiseNanos : Math.min(millis, Long.MAX_VALUE / 1_000_000) * 1_000_000;
    }

    private static <E extends Enum<E>> E named(URL url, String key, E otherwise) {
        String name = url.getParameter(key);
        if (name == null || name.isEmpty()) {
            return otherwise;
        }
        StringBuilder names = new StringBuilder();
        for (E each : otherwise.getDeclaringClass().getEnumConstants()) {
            String known = each.name().toLowerCase(Locale.ROOT);
            if (known.equals(name)) {
                return each;
            }
            names.append(' ').append(known);
        }
        throw new IllegalArgumentException(key + " is " + name + ", none of:" + names);
    }

    /** Methods whose service times are told apart. */
    private static final int METHODS_MAX = 1_024;
}
