package greenwave.deadline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;

/** The rule for overload decides as in Rust, by the same test vectors. */
//~ java: the rule for overload decides alike in Rust and Java, by one file of vectors
class SheddingTest {
    private record Request(String name, OptionalLong leftNanos, Forecast forecast) implements DeadlineQueue.Entry {
        @Override
        public long serviceNanos() {
            return forecast.meanNanos();
        }
    }

    @Test
    void forecastsAndDecisionsAreThoseOfTheVectors() throws IOException {
        JsonNode vectors = new ObjectMapper().readTree(Path.of("../../spec/deadline/shedding.json").toFile());
        Map<String, Forecast> kinds = new HashMap<>();
        for (JsonNode vector : vectors.get("forecasts")) {
            long[] samples = StreamSupport.stream(vector.get("samples").spliterator(), false)
                    .mapToLong(JsonNode::asLong)
                    .toArray();
            Forecast forecast = Forecast.ofSamples(samples);
            assertEquals(vector.get("mean").asLong(), forecast.meanNanos());
            for (JsonNode pair : vector.get("within")) {
                long left = pair.get(0).asLong();
                assertEquals(pair.get(1).asLong(), forecast.probabilityWithin(left), vector.get("kind") + " " + left);
            }
            kinds.put(vector.get("kind").asText(), forecast);
        }
        int pops = 0;
        for (JsonNode vector : vectors.get("queues")) {
            DeadlineQueue.Settings settings = new DeadlineQueue.Settings(
                    10_000, Order.EDF, Shedding.OVERLOAD, vector.get("age_max").asLong());
            DeadlineQueue<Request> queue = new DeadlineQueue<Request>(settings)
                    .withServers(vector.get("servers").asInt());
            for (JsonNode step : vector.get("steps")) {
                long now = step.get(1).asLong();
                if (step.get(0).asText().equals("push")) {
                    JsonNode left = step.get(4);
                    OptionalLong leftNanos = left.isNull() ? OptionalLong.empty() : OptionalLong.of(left.asLong());
                    Forecast forecast = kinds.get(step.get(3).asText());
                    queue.offer(now, new Request(step.get(2).asText(), leftNanos, forecast));
                    continue;
                }
                DeadlineQueue.Turn<Request> turn = queue.next(now);
                assertEquals(step.get(2).asText(), (turn.reason() == null ? "+" : "-") + turn.entry().name(), step.toString());
                pops++;
            }
        }
        assertTrue(pops > 100, pops + " decisions");
    }
}
