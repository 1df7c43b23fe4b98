package functions;

import com.amazonaws.services.lambda.runtime.Context;
import com.amazonaws.services.lambda.runtime.RequestStreamHandler;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.HashMap;
import java.util.Map;

/** A stream handler that gets one record, or any other event. */
public final class Streaming implements RequestStreamHandler {
    static {
        Script.load();
    }

    @Override
    public void handleRequest(InputStream input, OutputStream output, Context context) throws IOException {
        JsonNode event = Script.JSON.readTree(input);
        JsonNode record = event.path("Records").path(0);
        Object answer = record.isMissingNode()
                ? other(event)
                : Script.begin(
                                record.get("body").asText(),
                                record.at("/attributes/ApproximateReceiveCount").asText())
                        .answer();
        Script.JSON.writeValue(output, answer);
    }

    /** Handles an event that is not from SQS. */
    private static Map<String, Object> other(JsonNode event) {
        if (event.has("error")) {
            throw new Scripted.Transient(event.get("error").asText());
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("event", event);
        answer.put("other_wrapper", System.getenv("OTHER_WRAPPER"));
        return answer;
    }
}
