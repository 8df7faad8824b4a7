package greenwave.testbed;

import com.fasterxml.jackson.annotation.JsonAlias;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException;
import com.fasterxml.jackson.databind.json.JsonMapper;
import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Order;
import greenwave.deadline.Shedding;
import java.io.BufferedReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.TreeSet;

/**
 * Input of a runner: the services, and each request with its time of birth, user class and service times.
 *
 * @param settings the first line
 * @param requests the others, in the order of birth
 */
record Plan(Settings settings, List<Request> requests) {
    /**
     * The services and the settings of their queues.
     *
     * @param order name of an {@link Order}
     * @param shedding name of a {@link Shedding}
     * @param ageMaxNs for {@link DeadlineQueue.Settings#ageMaxNanos}
     * @param capacity maximum number of requests that wait at one server
     * @param stages the services, in the order of calls
     * @param slos classes of users
     */
    record Settings(
            String order, String shedding, @JsonAlias("patience_ns") long ageMaxNs, int capacity, List<Stage> stages, List<Slo> slos) {
        DeadlineQueue.Settings queue() throws RunnerException {
            return new DeadlineQueue.Settings(
                    capacity,
                    named("order", order, Order.values()),
                    named("shedding", shedding, Shedding.values()),
                    ageMaxNs);
        }
    }

    /**
     * A service, or a unit of {@code parts} workers.
     *
     * @param name name in messages
     * @param threads number of requests it works on at once; of a unit, that of each worker
     * @param parts number of workers among whom a request is split; 1 for a service
     * @param reserveNs of a unit: time reserved for the aggregate phase
     * @param partial of a unit: true if it may answer with some of the parts
     */
    record Stage(String name, int threads, int parts, long reserveNs, boolean partial) {}

    /** A class of users, and the response time in nanoseconds that they expect. */
    record Slo(String name, long sloNs) {}

    /**
     * One request.
     *
     * @param birthNanos time of birth since the runner was ready
     * @param slo its class of users
     * @param serviceNanos its service times: one for each part, over the stages in order
     * @param query number of its search query; {@link #NONE} without one
     */
    record Request(long birthNanos, Slo slo, long[] serviceNanos, int query) {
        static final int NONE = -1;
    }

    /**
     * Reads a plan from {@code lines}; requests may have queries if the runner {@code searches}.
     *
     * @throws RunnerException if the input is not a valid plan
     */
    static Plan read(BufferedReader lines, boolean searches) throws IOException, RunnerException {
        Settings settings = settings(lines.readLine());
        int parts = settings.stages.stream().mapToInt(Stage::parts).sum();
        List<Request> requests = new ArrayList<>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            requests.add(request(line, requests.size(), parts, searches, settings.slos));
        }
        return new Plan(settings, requests);
    }

    private static Settings settings(String line) throws RunnerException {
        Settings settings;
        try {
            settings = JSON.readValue(line == null ? "" : line, Settings.class);
        } catch (UnrecognizedPropertyException unknown) {
            throw new RunnerException("key " + unknown.getPropertyName() + " is not one of " + new TreeSet<>(unknown.getKnownPropertyIds()), SEE);
        } catch (JsonProcessingException bad) {
            throw new RunnerException("line 1 is no settings: " + bad.getOriginalMessage(), SEE);
        }
        if (settings.stages == null || settings.stages.isEmpty() || settings.slos == null || settings.slos.isEmpty()) {
            throw new RunnerException("stages or slos is empty, not 1 and more", SEE);
        }
        if (settings.capacity < 1) {
            throw new RunnerException("capacity " + settings.capacity + " is outside 1.." + Integer.MAX_VALUE, SEE);
        }
        for (Stage stage : settings.stages) {
            if (stage.threads < 1 || stage.parts < 1) {
                String given = "threads " + stage.threads + ", parts " + stage.parts;
                throw new RunnerException("stage " + stage.name + ": " + given + " are not 1 and more", SEE);
            }
        }
        settings.queue();
        return settings;
    }

    private static Request request(String line, int number, int parts, boolean searches, List<Slo> slos)
            throws RunnerException {
        int services = 2 + parts;
        try {
            long[] columns = Arrays.stream(line.split(",")).mapToLong(Long::parseLong).toArray();
            boolean hasQuery = searches && columns.length == services + 1;
            boolean isWhole = hasQuery || columns.length == services;
            boolean isKnown = isWhole && columns[1] >= 0 && columns[1] < slos.size();
            if (isKnown && Arrays.stream(columns).allMatch(column -> column >= 0)) {
                int query = hasQuery ? Math.toIntExact(columns[services]) : Request.NONE;
                Slo slo = slos.get((int) columns[1]);
                return new Request(columns[0], slo, Arrays.copyOfRange(columns, 2, services), query);
            }
        } catch (NumberFormatException | ArithmeticException bad) {
            // As any other line that is none.
        }
        String valid = "BIRTH,CLASS and " + parts + " service times" + (searches ? " and perhaps a query" : "");
        throw new RunnerException("request " + number + " is " + line + ", not " + valid + ", CLASS below " + slos.size(), SEE);
    }

    private static <E extends Enum<E>> E named(String key, String name, E[] values) throws RunnerException {
        List<String> names = new ArrayList<>();
        for (E value : values) {
            names.add(value.name().toLowerCase(Locale.ROOT));
            if (names.get(names.size() - 1).equals(name)) {
                return value;
            }
        }
        throw new RunnerException(key + " " + name + " is not one of " + names, SEE);
    }

    private static final JsonMapper JSON = JsonMapper.builder()
            .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
            .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
            .build();
    private static final String SEE = "a plan as spec/testbed.md has it";
}
