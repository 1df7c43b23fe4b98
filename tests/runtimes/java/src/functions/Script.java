package functions;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import sun.misc.Signal;

/** A call that {@code data.script} describes: one action for each attempt or crash, then {@code ok}. */
record Script(String action, String text) {
    static final ObjectMapper JSON = new ObjectMapper();

    static {
        note("process " + ProcessHandle.current().pid());
        pauseRestart();
        Signal.handle(new Signal("TERM"), signal -> {
            note("SIGTERM");
            Runtime.getRuntime().halt(0);
        });
    }

    /** Loads the class when the process starts, instead of during the first call. */
    static void load() {
        try {
            JSON.readTree("{}");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Writes the call to the journal. */
    static Script begin(String body, String receives) throws IOException {
        JsonNode message = JSON.readTree(body);
        JsonNode metadata = message.get("metadata");
        JsonNode data = message.get("data");
        int attempt = metadata.path("retry_attempt").asInt();
        int snoozes = metadata.path("snooze_count").asInt();
        // With the strategy `visibility`, SQS counts the attempts.
        int done = attempt + metadata.path("redrive_count").asInt() + Integer.parseInt(receives) - 1;
        String action = data.get("script").path(done).asText("ok");
        // A snooze spends no attempt, so a repeated snooze would never end.
        if (action.equals("snooze") && snoozes > 0) {
            action = "ok";
        }
        JsonNode history = metadata.path("retry_history");
        String last = history.path(history.size() - 1).path("error_type").asText("-");
        String id = metadata.get("message_id").asText();
        note(String.join(" ", id, String.valueOf(attempt), String.valueOf(snoozes), action, last));
        return new Script(action, data.path("text").asText());
    }

    /** Returns the response of a handler for one record. */
    Object answer() {
        switch (action) {
            case "permanent":
                return redeliver(Map.of("outcome", "permanent", "type", "Scripted.Permanent", "details", text));
            case "snooze":
                return redeliver(Map.of(
                        "outcome", "snooze", "delay_seconds", 1, "type", "Scripted.Snooze", "details", "later"));
            default:
                end();
                return null;
        }
    }

    private static Object redeliver(Map<String, Object> outcome) {
        return Map.of("redeliver", outcome);
    }

    void end() {
        switch (action) {
            case "panic":
                throw new IllegalStateException(text);
            case "transient":
                throw new Scripted.Transient(text);
            case "permanent":
                throw new Scripted.Permanent(text);
            case "hang":
                sleep(Long.MAX_VALUE);
                break;
            case "block":
                while (true) {
                    Thread.onSpinWait();
                }
            case "loud":
                for (int line = 0; line < 10_000; line++) {
                    System.out.println("x".repeat(999));
                }
                break;
            case "memory":
                byte[][] kept = new byte[1 << 20][];
                for (int next = 0; ; next++) {
                    kept[next] = new byte[1 << 24];
                }
            case "exit":
                System.exit(3);
                break;
            case "signal":
                killThisProcess();
                break;
            default:
        }
    }

    private static void killThisProcess() {
        try {
            new ProcessBuilder("kill", "-KILL", String.valueOf(ProcessHandle.current().pid())).start();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        sleep(Long.MAX_VALUE);
    }

    /** Delays the start of a replacement process by RESTART_SECONDS. */
    private static void pauseRestart() {
        String seconds = System.getenv().getOrDefault("RESTART_SECONDS", "0");
        try (var lines = Files.lines(journal())) {
            if (lines.filter(line -> line.startsWith("process")).count() > 1) {
                sleep(Long.parseLong(seconds) * 1000);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void note(String line) {
        try {
            Files.writeString(journal(), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Path journal() {
        return Path.of(System.getenv("SCRIPT_JOURNAL"));
    }
}
