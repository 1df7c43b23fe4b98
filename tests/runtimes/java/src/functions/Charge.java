package functions;

import com.amazonaws.services.lambda.runtime.events.SQSEvent;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;

/** The handler of docs/own-function.md. */
public class Charge {
    private static final ObjectMapper JSON = new ObjectMapper();

    public void handle(SQSEvent event) throws IOException {
        for (var message : event.getRecords()) charge(JSON.readTree(message.getBody()).get("data"));
    }

    private static void charge(JsonNode data) {
        if (data.get("does").asText().equals("fails")) throw new CardDeclined("no funds");
        System.out.println("charged");
    }

    static final class CardDeclined extends RuntimeException {
        CardDeclined(String text) {
            super(text);
        }
    }
}
