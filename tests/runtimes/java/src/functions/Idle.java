package functions;

import com.amazonaws.services.lambda.runtime.events.SQSBatchResponse;
import com.amazonaws.services.lambda.runtime.events.SQSEvent;
import java.util.List;

/** Does nothing, for measuring the cost of a call. */
public final class Idle {
    public SQSBatchResponse handle(SQSEvent event) {
        return new SQSBatchResponse(List.of());
    }
}
