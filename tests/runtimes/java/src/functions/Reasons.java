package functions;

import com.amazonaws.services.lambda.runtime.events.SQSEvent;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;

/** Fails according to {@code data.does}. */
public final class Reasons {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static final class CardDeclined extends RuntimeException {
        CardDeclined() {
            super("no funds", new IOException("the bank: closed"));
        }
    }

    public void handle(SQSEvent event) throws Exception {
        String body = event.getRecords().get(0).getBody();
        switch (JSON.readTree(body).at("/data/does").asText()) {
            case "throws":
                charge();
                break;
            case "gets":
                CompletableFuture.runAsync(Reasons::charge).get();
                break;
            case "joins":
                CompletableFuture.runAsync(Reasons::charge).join();
                break;
            case "wraps twice":
                CompletableFuture.runAsync(Reasons::wrap).join();
                break;
            case "wraps":
                wrap();
                break;
            case "says more":
                throw new RuntimeException("order 7: it failed", new CardDeclined());
            case "reflects":
                // As thrown by Method.invoke, whose own frames differ between versions of Java.
                throw new java.lang.reflect.InvocationTargetException(new CardDeclined());
            case "suppresses":
                RuntimeException failed = new RuntimeException("two failed");
                failed.addSuppressed(new CardDeclined());
                throw failed;
            case "says nothing":
                throw new IllegalStateException();
            case "overflows":
                overflow(0);
                break;
            case "exits":
                System.exit(3);
                break;
            default:
        }
    }

    private static void charge() {
        throw new CardDeclined();
    }

    private static void wrap() {
        try {
            charge();
        } catch (CardDeclined error) {
            throw new RuntimeException(error);
        }
    }

    private static int overflow(int depth) {
        return overflow(depth + 1) + 1;
    }
}
