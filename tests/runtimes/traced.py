"""A function that writes its spans with OpenTelemetry's SDK, unaware of redeliver."""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.aws import AwsXRayLambdaPropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

# The exporter reads the collector's address from OTEL_EXPORTER_OTLP_ENDPOINT.
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("orders")


def handler(event, context):
    [record] = event["Records"]
    # Like OpenTelemetry's instrumentation of Lambda: https://opentelemetry.io/docs/specs/semconv/faas/aws-lambda/
    parent = AwsXRayLambdaPropagator().extract({})
    attributes = {name: attribute.get("stringValue", "") for name, attribute in record["messageAttributes"].items()}
    producer = trace.get_current_span(TraceContextTextMapPropagator().extract(attributes)).get_span_context()
    with tracer.start_as_current_span(
        "charge", context=parent, kind=trace.SpanKind.CONSUMER, links=[trace.Link(producer)]
    ):
        pass
