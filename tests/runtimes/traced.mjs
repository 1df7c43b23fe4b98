// A function that writes its spans with OpenTelemetry's SDK, unaware of redeliver.

import { ROOT_CONTEXT, SpanKind, defaultTextMapGetter, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { AWSXRAY_TRACE_ID_HEADER, AWSXRayPropagator } from '@opentelemetry/propagator-aws-xray';
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';

// The exporter reads the collector's address from OTEL_EXPORTER_OTLP_ENDPOINT.
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter())] });
const tracer = provider.getTracer('orders');

const contextOf = (propagator, carrier) => propagator.extract(ROOT_CONTEXT, carrier, defaultTextMapGetter);

export async function handler({ Records: [{ messageAttributes }] }) {
  // Like OpenTelemetry's instrumentation of Lambda: https://opentelemetry.io/docs/specs/semconv/faas/aws-lambda/
  const header = { [AWSXRAY_TRACE_ID_HEADER]: process.env._X_AMZN_TRACE_ID };
  const parent = contextOf(new AWSXRayPropagator(), header);
  const attributes = Object.entries(messageAttributes).map(([name, { stringValue }]) => [name, stringValue]);
  const producer = contextOf(new W3CTraceContextPropagator(), Object.fromEntries(attributes));
  const links = [{ context: trace.getSpanContext(producer) }];
  tracer.startSpan('charge', { kind: SpanKind.CONSUMER, links }, parent).end();
  await provider.forceFlush();
}
