package functions;

import com.amazonaws.services.lambda.runtime.events.SQSEvent;

/** A class whose static initializer fails. */
public final class NeverLoads {
    static final int LIMIT = Integer.parseInt("many");

    public void handle(SQSEvent event) {}
}
