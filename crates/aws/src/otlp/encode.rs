//! Spans as OTLP's messages.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Encoded, Status};
use redeliver_core::message::Timestamp;
use redeliver_core::trace::messaging::SCHEMA_URL;
use redeliver_core::trace::{AttributeValue, Span, SpanContext, SpanKind};

/// `SpanFlags` of a sampled span ("opentelemetry/proto/trace/v1/trace.proto").
const SAMPLED: u32 = 1;

/// The request with these spans.
#[must_use]
pub fn exported_spans(attributes: &[(String, String)], spans: Vec<Span>) -> ExportTraceServiceRequest {
    let spans = ScopeSpans {
        scope: Some(scope()),
        spans: spans.into_iter().map(encoded).collect(),
        schema_url: SCHEMA_URL.to_owned(),
    };
    let spans = ResourceSpans {
        resource: Some(resource(attributes)),
        scope_spans: vec![spans],
        schema_url: SCHEMA_URL.to_owned(),
    };
    ExportTraceServiceRequest { resource_spans: vec![spans] }
}

/// The resource that telemetry comes from.
#[must_use]
pub fn resource(attributes: &[(String, String)]) -> Resource {
    let attribute = |(name, value): &(String, String)| key_value(name, AttributeValue::from(value.clone()));
    Resource { attributes: attributes.iter().map(attribute).collect(), ..Resource::default() }
}

/// The program that writes telemetry.
#[must_use]
pub fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "redeliver".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

fn encoded(span: Span) -> Encoded {
    let Span { context, parent, links, name, kind, start, end, mut attributes, events, error } = span;
    let status = error.as_ref().map(|_| Status { code: StatusCode::Error.into(), ..Status::default() });
    attributes.extend(error.map(|error| ("error.type", AttributeValue::Text(error))));
    Encoded {
        trace_id: context.trace_id.to_be_bytes().to_vec(),
        span_id: span_id(context),
        parent_span_id: parent.map(span_id).unwrap_or_default(),
        flags: SAMPLED,
        name: name.into_owned(),
        kind: match kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
            SpanKind::Producer => 4,
            SpanKind::Consumer => 5,
        },
        start_time_unix_nano: nanoseconds(start),
        end_time_unix_nano: nanoseconds(end.max(start)),
        attributes: key_values(attributes),
        events: events
            .into_iter()
            .map(|event| Event {
                time_unix_nano: nanoseconds(event.at),
                name: event.name.to_owned(),
                attributes: key_values(event.attributes),
                ..Event::default()
            })
            .collect(),
        links: links
            .into_iter()
            .map(|link| Link {
                trace_id: link.to.trace_id.to_be_bytes().to_vec(),
                span_id: span_id(link.to),
                attributes: vec![key_value("redeliver.link", link.role.into())],
                flags: u32::from(link.to.is_sampled),
                ..Link::default()
            })
            .collect(),
        status,
        ..Encoded::default()
    }
}

fn span_id(context: SpanContext) -> Vec<u8> {
    context.span_id.to_be_bytes().to_vec()
}

/// A moment, as OTLP writes it.
#[must_use]
pub fn nanoseconds(moment: Timestamp) -> u64 {
    moment.timestamp_nanos_opt().and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).unwrap_or(0)
}

fn key_values(attributes: Vec<(&'static str, AttributeValue)>) -> Vec<KeyValue> {
    attributes.into_iter().map(|(name, value)| key_value(name, value)).collect()
}

fn key_value(name: &str, value: AttributeValue) -> KeyValue {
    let value = match value {
        AttributeValue::Text(text) => Value::StringValue(text.into_owned()),
        AttributeValue::Number(number) => Value::IntValue(number),
    };
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
