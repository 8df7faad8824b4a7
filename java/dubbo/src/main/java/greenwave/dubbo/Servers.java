package greenwave.dubbo;

import greenwave.deadline.DeadlineQueue.Settings;
import greenwave.deadline.Gate;
import greenwave.deadline.BudgetValidator;
import greenwave.deadline.Limits;
import greenwave.deadline.Order;
import greenwave.deadline.Shedding;
import greenwave.deadline.codec.BudgetField;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.rpc.Invocation;

/**
 * The listening ports of this process, each with its {@link Gate} (granted budgets, estimates and counters).
 *
 * <p>The protocol's parameters: {@code deadline.default} and {@code deadline.longest} (ms) and {@code
 * deadline.trusted} for {@link Limits}; {@code queues}, {@code deadline.order}, {@code deadline.shedding} and
 * {@code deadline.timeout} (ms; its old name {@code deadline.patience} works for one release) for the queue;
 * {@code deadline.dry-run} for {@link Gate#dryRun}.
 * One that is not given has the default of {@link Limits} or {@link Settings}. Thread-safe.
 */
public final class Servers {
    private static final Map<Integer, Gate> GATES = new ConcurrentHashMap<>();

    private Servers() {}

    /** The server on {@code port} of this process, null before its first request or thread. */
    public static Gate on(int port) {
        return GATES.get(port);
    }

    /** The server that {@code url} describes; created if it does not exist. */
    static Gate at(URL url) {
        return GATES.computeIfAbsent(url.getPort(), port -> gate(url));
    }

    /** A new server as {@code url} describes it, which replaces an existing one. */
    static Gate open(URL url) {
        Gate gate = gate(url);
        GATES.put(url.getPort(), gate);
        return gate;
    }

    /**
     * Registers the arrival of {@code invocation} at {@code gate} at {@code nowNanos}. Its budget is the one
     * it carries, or the caller's timeout in milliseconds ({@code timeout}), which peers send that do not
     * know budgets.
     */
    static Gate.Arrival arrive(Gate gate, long nowNanos, Invocation invocation) {
        String budget = text(invocation, BudgetField.HEADER);
        String timeout = text(invocation, CommonConstants.TIMEOUT_KEY);
        return gate.arrive(nowNanos, BudgetValidator.Received.of(budget, null, timeout), method(invocation));
    }

    /** Key of service time estimates: {@code [group/]interface:version.method}, version 0.0.0 by default. */
    static String method(Invocation invocation) {
        return invocation.getTargetServiceUniqueName() + '.' + invocation.getMethodName();
    }

    /** An attachment as text. One of another type becomes an empty text, which cannot be parsed. */
    private static String text(Invocation invocation, String key) {
        Object value = invocation.getObjectAttachmentWithoutConvert(key);
        return value == null || value instanceof String ? (String) value : "";
    }

    private static Gate gate(URL url) {
        Limits limits = Limits.DEFAULT;
        Settings standard = Settings.DEFAULT;
        int queues = url.getParameter(CommonConstants.QUEUES_KEY, 0);
        Limits validation = new Limits(
                millis(url, "deadline.default", limits.defaultNanos()),
                millis(url, "deadline.longest", limits.longestNanos()),
                url.getParameter("deadline.trusted", limits.trusted()));
        Settings queue = new Settings(
                queues > 0 ? queues : standard.capacity(),
                named(url, "deadline.order", standard.order()),
                shedding(url),
                millis(url, "deadline.timeout", millis(url, "deadline.patience", standard.ageMaxNanos())));
        boolean isDryRun = url.getParameter("deadline.dry-run", false);
        return isDryRun ? Gate.dryRun(validation, queue) : new Gate(validation, queue);
    }

    /** The rule for dropping requests, of a server or of a caller. */
    static Shedding shedding(URL url) {
        return named(url, "deadline.shedding", Settings.DEFAULT.shedding());
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
        throw new IllegalArgumentException(key + " " + name + " is not one of:" + names);
    }
}
