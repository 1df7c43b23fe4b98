package functions;

import com.amazonaws.services.lambda.runtime.events.SQSBatchResponse;
import com.amazonaws.services.lambda.runtime.events.SQSEvent;
import java.util.List;

/** Does nothing: for what a call costs. */
public final class Idle {
    public SQSBatchResponse handle(SQSEvent event) {
        return new SQSBatchResponse(List.of());
    }
}
