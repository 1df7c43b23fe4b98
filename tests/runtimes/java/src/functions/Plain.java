package functions;

import com.amazonaws.services.lambda.runtime.Context;
import com.amazonaws.services.lambda.runtime.RequestHandler;
import com.amazonaws.services.lambda.runtime.events.SQSBatchResponse;
import com.amazonaws.services.lambda.runtime.events.SQSBatchResponse.BatchItemFailure;
import com.amazonaws.services.lambda.runtime.events.SQSEvent;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Handles one record after another, as in Lambda's documentation, and returns the failed ones without a reason. */
public final class Plain implements RequestHandler<SQSEvent, SQSBatchResponse> {
    static {
        Script.load();
    }

    @Override
    public SQSBatchResponse handleRequest(SQSEvent event, Context context) {
        List<BatchItemFailure> failures = new ArrayList<>();
        for (SQSEvent.SQSMessage message : event.getRecords()) {
            try {
                String receives = message.getAttributes().get("ApproximateReceiveCount");
                Script.begin(message.getBody(), receives).end();
            } catch (IOException | RuntimeException error) {
                failures.add(new BatchItemFailure(message.getMessageId()));
            }
        }
        return new SQSBatchResponse(failures);
    }
}
