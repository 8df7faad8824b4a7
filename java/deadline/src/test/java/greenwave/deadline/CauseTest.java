package greenwave.deadline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;

/** Causes as in Rust, by the same test vectors. */
//~ java: causes have one name, status, code and text in Rust and Java, by one file of vectors
class CauseTest {
    private static String word(Cause cause) {
        return cause == null ? "null" : cause.word();
    }

    @Test
    void causesFollowTheVectors() throws IOException {
        JsonNode vectors = new ObjectMapper().readTree(Path.of("../../spec/deadline/causes.json").toFile());
        assertEquals(vectors.get("field").asText(), Cause.HEADER);
        List<String> words = new ArrayList<>();
        for (JsonNode row : vectors.get("causes")) {
            words.add(row.get("name").asText());
            Cause cause = Cause.parse(row.get("name").asText());
            assertEquals(row.get("http").asInt(), cause.httpStatus());
            assertEquals(row.get("grpc").asInt(), cause.grpcCode());
            assertEquals(row.get("refusal").asBoolean(), cause.isRefusal());
            assertEquals(row.get("text").asText(), cause.toString());
            assertEquals(row.get("downstream").asText(), cause.seenFromDownstream().word());
        }
        assertEquals(words, List.of(Cause.values()).stream().map(Cause::word).toList(), "all, in one order");
        for (JsonNode vector : vectors.get("read")) {
            assertEquals(vector.get("cause").asText(), word(Cause.parse(vector.get("text").asText())), vector.toString());
        }
        statuses(vectors.get("http"), Cause::ofHttpStatus);
        statuses(vectors.get("grpc"), Cause::ofGrpcCode);
        for (Shedding.Reason reason : Shedding.Reason.values()) {
            assertTrue(reason.cause().isRefusal());
        }
    }

    private static void statuses(JsonNode vectors, IntFunction<Cause> read) {
        vectors.fields().forEachRemaining(vector -> {
            String expected = vector.getValue().asText();
            assertEquals(expected, word(read.apply(Integer.parseInt(vector.getKey()))), vector.getKey());
        });
    }
}
