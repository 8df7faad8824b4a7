package greenwave.deadline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import greenwave.deadline.codec.BadBudget;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.codec.EnvoyTimeout;
import greenwave.deadline.codec.GrpcTimeout;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

/** Wire formats: the same test vectors as the Rust side's. */
//~ fuzzing: budgets as text are read alike in Rust and Java, from one corpus
//~ java: budget headers read and write as the shared vectors have them
class VectorsTest {
    private interface Parser<T> {
        T parse(String text) throws BadBudget;
    }

    @Test
    void theBudgetFieldFollowsTheVectors() throws IOException {
        check("greenwave-budget", v -> budget(v.get("budget")), BudgetField::parse, BudgetField::write);
    }

    @Test
    void grpcTimeoutFollowsTheVectors() throws IOException {
        check("grpc-timeout", v -> nanos(v.get("us")), GrpcTimeout::parse, GrpcTimeout::write);
    }

    @Test
    void envoysHeaderFollowsTheVectors() throws IOException {
        check(EnvoyTimeout.HEADER, v -> nanos(v.get("us")), EnvoyTimeout::parse, EnvoyTimeout::write);
    }

    //~ java: garbled, repeated, zero, negative and huge budget fields follow one rule, in every combination
    @Test
    void everyCombinationOfFieldsGivesTheBudgetOfTheVectors() throws IOException {
        JsonNode received = new ObjectMapper()
                .readTree(Path.of("../../spec/deadline/vectors.json").toFile())
                .get("received");
        Limits limits = new Limits(nanos(received.get("default")), nanos(received.get("longest")), false);
        JsonNode fields = received.get("fields");
        for (JsonNode example : received.get("cases")) {
            BudgetValidator validator = new BudgetValidator(limits);
            Budget budget = validator.accept(new BudgetValidator.Received(
                    lines(fields.get(BudgetField.HEADER).get(example.get(0).asText())),
                    lines(fields.get(GrpcTimeout.HEADER).get(example.get(1).asText())),
                    lines(fields.get(EnvoyTimeout.HEADER).get(example.get(2).asText()))));
            JsonNode result = example.get(3);
            assertEquals(nanos(result.get("left")), budget.remaining().leftNanos(), example.toString());
            assertEquals(nanos(result.get("elapsed")), budget.elapsedNanos(), example.toString());
            List<String> faults = new ArrayList<>();
            for (InvalidBudget fault : InvalidBudget.values()) {
                if (validator.faults(fault) > 0) {
                    faults.add(fault.name().toLowerCase(java.util.Locale.ROOT));
                }
            }
            assertEquals(lines(result.get("faults")), faults, example.toString());
        }
        assertEquals(10 * 9 * 9, received.get("cases").size());
    }

    private static List<String> lines(JsonNode array) {
        List<String> lines = new ArrayList<>();
        array.forEach(line -> lines.add(line.asText()));
        return lines;
    }

    //~ java: an untrusted peer's past is not passed on, in Rust and Java by one file of vectors
    @Test
    void aPastIsPassedOnFromTrustedPeersOnly() throws IOException, BadBudget {
        JsonNode cases = new ObjectMapper()
                .readTree(Path.of("../../spec/deadline/vectors.json").toFile())
                .get("passed on")
                .get("cases");
        for (JsonNode example : cases) {
            for (boolean trusted : new boolean[] {true, false}) {
                Gate gate = new Gate(new Limits(0, Long.MAX_VALUE, trusted), DeadlineQueue.Settings.DEFAULT);
                BudgetValidator.Received received =
                        BudgetValidator.Received.of(example.get("received").asText(), null, null);
                StageTimer timer = gate.arrive(0, received, "method").timer();
                long started = nanos(example.get("queue"));
                timer.start(started);
                long now = started + nanos(example.get("service"));
                String expected = example.get(trusted ? "trusted" : "untrusted").asText();
                assertEquals(expected, BudgetField.write(timer.outgoing(now)), example.toString());
                assertEquals(example.get("trusted").asText(), BudgetField.write(timer.leave(now)), "to the peer");
            }
        }
        assertEquals(5, cases.size());
    }

    /** The Rust side's fuzz corpus with its parse results. */
    @Test
    void everyTextOfTheCorpusParsesAsInRust() throws IOException {
        JsonNode texts = new ObjectMapper()
                .readTree(Path.of("../../spec/deadline/corpus.json").toFile())
                .get("texts");
        assertTrue(texts.size() > 100);
        for (JsonNode entry : texts) {
            String text = entry.get("text").asText();
            JsonNode budget = entry.get(BudgetField.HEADER);
            Object read = read(BudgetField::parse, text);
            assertEquals(
                    budget.isTextual() ? fault(budget) : budget.get("written").asText(),
                    read instanceof Budget known ? BudgetField.write(known) : read,
                    BudgetField.HEADER + ": " + text);
            checkTimeout(entry, GrpcTimeout.HEADER, GrpcTimeout::parse, text);
            checkTimeout(entry, EnvoyTimeout.HEADER, EnvoyTimeout::parse, text);
        }
    }

    private static void checkTimeout(JsonNode entry, String format, Parser<Long> parser, String text) {
        JsonNode told = entry.get(format);
        BigInteger most = BigInteger.valueOf(Long.MAX_VALUE);
        Object expected = told.isTextual() ? fault(told) : told.get("ns").bigIntegerValue().min(most).longValue();
        assertEquals(expected, read(parser, text), format + ": " + text);
    }

    private static InvalidBudget fault(JsonNode name) {
        return InvalidBudget.valueOf(name.asText().toUpperCase(java.util.Locale.ROOT));
    }

    @Test
    void anOverlongFieldIsNotParsed() {
        for (String unit : List.of("(", "a=1,", "9", "\"", "expected=1, remaining=1, ")) {
            String garbage = unit.repeat(1_000_000 / unit.length());
            assertEquals(InvalidBudget.GARBLED, read(BudgetField::parse, garbage));
            assertEquals(InvalidBudget.GARBLED, read(GrpcTimeout::parse, garbage));
            assertEquals(InvalidBudget.GARBLED, read(EnvoyTimeout::parse, garbage));
        }
    }

    @Test
    void noTextMakesAParserThrowUnexpectedly() {
        Random random = new Random(20261122);
        String[] parts = {
            "expected=", "remaining=", "split", "spent=(", "takes=", "slowest=", ")", ", ", ";", "=", "1", "-", ".", "?", "\"", "\\", ":",
            "@", "%", "a", "A", " ", "\t", "é", "\0", "\uffff", "99999999999999", "m", "H"
        };
        for (int round = 0; round < 20_000; round++) {
            StringBuilder text = new StringBuilder(round % 2 == 0 ? "expected=5, remaining=1" : "");
            for (int n = random.nextInt(12); n > 0; n--) {
                text.append(parts[random.nextInt(parts.length)]);
            }
            read(BudgetField::parse, text.toString());
            read(GrpcTimeout::parse, text.toString());
            read(EnvoyTimeout::parse, text.toString());
        }
        String fine = "expected=5, remaining=1";
        assertFalse(read(BudgetField::parse, fine) instanceof InvalidBudget);
        for (String behind : List.of("\0", "\uffff", ",", "é", ", ,")) {
            assertEquals(InvalidBudget.GARBLED, read(BudgetField::parse, fine + behind));
        }
    }

    @Test
    void aWrittenBudgetRoundTripsAndNeverGainsTime() throws BadBudget {
        Random random = new Random(7);
        for (int round = 0; round < 2_000; round++) {
            List<Stage> stages = new ArrayList<>();
            for (int n = random.nextInt(8); n > 0; n--) {
                long most = 1_000_000_000_000L;
                stages.add(new Stage(random.nextLong(most), random.nextLong(most), random.nextLong(most)));
            }
            long most = 1_000_000_000_000_000L;
            Budget sent = Budget.restored(random.nextLong(most), random.nextLong(most), stages);
            if (random.nextBoolean()) {
                sent = sent.split(random.nextLong(most));
            }
            if (random.nextBoolean()) {
                sent = sent.expecting(new SubrequestEstimate(random.nextLong(most), random.nextLong(most)));
            }
            Budget got = BudgetField.parse(BudgetField.write(sent));
            long lost = sent.remaining().leftNanos() - got.remaining().leftNanos();
            assertTrue(lost >= 0 && lost <= 2_000, sent + " " + got);
            assertTrue(got.expectedNanos() <= sent.expectedNanos());
            assertEquals(sent.isSplit(), got.isSplit());
            assertEquals(sent.part().isPresent(), got.part().isPresent());
            assertEquals(sent.stages().size(), got.stages().size());
            assertEquals(BudgetField.write(sent), BudgetField.write(got), "once written, for ever the same");
            long left = sent.remaining().leftNanos();
            assertTrue(GrpcTimeout.parse(GrpcTimeout.write(left)) <= Math.max(left, 1));
            assertTrue(EnvoyTimeout.parse(EnvoyTimeout.write(left)) <= Math.max(left, 1_000_000));
        }
    }

    /** Checks every vector of {@code format}: the parsed and the written value. */
    private static <T> void check(
            String format, Function<JsonNode, T> value, Parser<T> read, Function<T, String> write)
            throws IOException {
        JsonNode vectors = new ObjectMapper().readTree(Path.of("../../spec/deadline/vectors.json").toFile());
        assertTrue(vectors.get(format).get("read").size() > 0 && vectors.get(format).get("write").size() > 0);
        for (JsonNode vector : vectors.get(format).get("read")) {
            String text = vector.get("text").asText();
            Object expected = vector.has("fault") ? fault(vector.get("fault")) : value.apply(vector);
            assertEquals(expected, read(read, text), format + ": " + text);
        }
        for (JsonNode vector : vectors.get(format).get("write")) {
            assertEquals(vector.get("text").asText(), write.apply(value.apply(vector)), format + ": " + vector);
        }
    }

    private static Object read(Parser<?> parser, String text) {
        try {
            return parser.parse(text);
        } catch (BadBudget bad) {
            return bad.fault();
        }
    }

    private static long nanos(JsonNode micros) {
        return micros.asLong() * 1_000;
    }

    private static Budget budget(JsonNode value) {
        List<Stage> stages = new ArrayList<>();
        for (JsonNode row : value.path("stages")) {
            stages.add(new Stage(nanos(row.get(0)), nanos(row.get(1)), nanos(row.get(2))));
        }
        Budget budget = Budget.restored(nanos(value.get("expected")), nanos(value.get("elapsed")), stages);
        budget = value.has("split") ? budget.split(nanos(value.get("split"))) : budget;
        JsonNode part = value.path("part");
        return part.isMissingNode()
                ? budget
                : budget.expecting(new SubrequestEstimate(nanos(part.get(0)), nanos(part.get(1))));
    }
}
