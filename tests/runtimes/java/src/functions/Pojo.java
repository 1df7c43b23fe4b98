package functions;

import com.amazonaws.services.lambda.runtime.events.SQSEvent;
import java.io.IOException;

/** A handler method with an arbitrary name that gets one record as an object. */
public final class Pojo {
    static {
        Script.load();
    }

    public Object work(SQSEvent event) throws IOException {
        SQSEvent.SQSMessage message = event.getRecords().get(0);
        String receives = message.getAttributes().get("ApproximateReceiveCount");
        return Script.begin(message.getBody(), receives).answer();
    }
}
