//! Encodes spans for OTLP, with OpenTelemetry's own types ("opentelemetry/proto/trace/v1/trace.proto").

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use redeliver_core::message::Timestamp;
use redeliver_core::trace::messaging::SCHEMA_URL;
use redeliver_core::trace::{Span, SpanEvent, SpanKind, SpanValue, TraceLink};

/// The flags of a sampled span.
const SAMPLED: u32 = 1;
/// The attribute that contains a link's role.
const ROLE: &str = "redeliver.link";

/// Encodes a request with these spans and resource attributes.
pub(super) fn encode_request(
    resource: &[(String, String)],
    spans: Vec<Span<'_>>,
) -> ExportTraceServiceRequest {
    let attributes = resource.iter().map(|(name, value)| text_attribute(name, value.clone())).collect();
    let scope = InstrumentationScope {
        name: "redeliver".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans = otlp::ScopeSpans {
        scope: Some(scope),
        spans: spans.into_iter().map(encode_span).collect(),
        schema_url: SCHEMA_URL.to_owned(),
    };
    let resource_spans = otlp::ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![scope_spans],
        schema_url: SCHEMA_URL.to_owned(),
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

fn encode_span(span: Span<'_>) -> otlp::Span {
    let Span { context, parent, links, name, kind, start, end, attributes: own, events, error } = span;
    let kind = match kind {
        SpanKind::Internal => otlp::span::SpanKind::Internal,
        SpanKind::Client => otlp::span::SpanKind::Client,
        SpanKind::Consumer => otlp::span::SpanKind::Consumer,
    };
    let status = error
        .is_some()
        .then(|| otlp::Status { code: otlp::status::StatusCode::Error.into(), ..otlp::Status::default() });
    let mut attributes = encode_attributes(own);
    attributes.extend(error.map(|error| text_attribute("error.type", error.into_owned())));
    otlp::Span {
        trace_id: context.trace_id.to_be_bytes().to_vec(),
        span_id: context.span_id.to_be_bytes().to_vec(),
        parent_span_id: parent.map(|parent| parent.span_id.to_be_bytes().to_vec()).unwrap_or_default(),
        flags: SAMPLED,
        name: name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: unix_nanoseconds(start),
        end_time_unix_nano: unix_nanoseconds(end.max(start)),
        attributes,
        events: events.into_iter().map(encode_event).collect(),
        links: links.into_iter().map(encode_link).collect(),
        status,
        ..otlp::Span::default()
    }
}

fn encode_event(SpanEvent { name, at, attributes: own }: SpanEvent) -> otlp::span::Event {
    otlp::span::Event {
        time_unix_nano: unix_nanoseconds(at),
        name: name.to_owned(),
        attributes: encode_attributes(own),
        ..otlp::span::Event::default()
    }
}

fn encode_link(TraceLink { to, role }: TraceLink) -> otlp::span::Link {
    otlp::span::Link {
        trace_id: to.trace_id.to_be_bytes().to_vec(),
        span_id: to.span_id.to_be_bytes().to_vec(),
        attributes: vec![text_attribute(ROLE, role.to_owned())],
        flags: u32::from(to.is_sampled),
        ..otlp::span::Link::default()
    }
}

fn encode_attributes(attributes: Vec<(&'static str, SpanValue<'_>)>) -> Vec<KeyValue> {
    let encoded = |(name, value)| match value {
        SpanValue::Text(value) => text_attribute(name, value.into_owned()),
        SpanValue::Number(number) => new_attribute(name, Value::IntValue(number)),
    };
    attributes.into_iter().map(encoded).collect()
}

fn text_attribute(name: &str, value: String) -> KeyValue {
    new_attribute(name, Value::StringValue(value))
}

fn new_attribute(name: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

fn unix_nanoseconds(moment: Timestamp) -> u64 {
    moment.timestamp_nanos_opt().and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use prost::Message as _;
    use redeliver_core::message::metadata::parse_rfc3339;
    use redeliver_core::trace::SpanContext;

    use super::*;

    const NANOSECONDS: u64 = 1_785_000_000_000_001_000;

    fn sample_time() -> Timestamp {
        parse_rfc3339("2026-07-25T17:20:00.000001Z").unwrap()
    }

    fn number_attribute(name: &str, number: i64) -> KeyValue {
        new_attribute(name, Value::IntValue(number))
    }

    #[test]
    fn an_encoded_span_decodes_without_loss() {
        let context = |span_id| SpanContext { trace_id: 1 << 120 | 7, span_id, is_sampled: true };
        let span = Span {
            context: context(2),
            parent: Some(context(1)),
            links: vec![TraceLink { to: context(3), role: "producer" }],
            name: "process orders".into(),
            kind: SpanKind::Consumer,
            start: sample_time(),
            end: sample_time() + TimeDelta::seconds(1),
            attributes: vec![
                ("text", "é".into()),
                ("number", SpanValue::Number(-5)),
                ("large", 4_000_000_000.into()),
            ],
            events: vec![SpanEvent { name: "held", at: sample_time(), attributes: vec![("n", 300.into())] }],
            error: Some("HttpStatus.503".into()),
        };
        let resource = [("service.name".to_owned(), "orders".to_owned())];
        let encoded = encode_request(&resource, vec![span]).encode_to_vec();

        let trace_id = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        let span_id = |id: u8| vec![0, 0, 0, 0, 0, 0, 0, id];
        let span = otlp::Span {
            trace_id: trace_id.clone(),
            span_id: span_id(2),
            parent_span_id: span_id(1),
            name: "process orders".to_owned(),
            kind: otlp::span::SpanKind::Consumer.into(),
            start_time_unix_nano: NANOSECONDS,
            end_time_unix_nano: NANOSECONDS + 1_000_000_000,
            attributes: vec![
                text_attribute("text", "é".to_owned()),
                number_attribute("number", -5),
                number_attribute("large", 4_000_000_000),
                text_attribute("error.type", "HttpStatus.503".to_owned()),
            ],
            events: vec![otlp::span::Event {
                time_unix_nano: NANOSECONDS,
                name: "held".to_owned(),
                attributes: vec![number_attribute("n", 300)],
                ..otlp::span::Event::default()
            }],
            links: vec![otlp::span::Link {
                trace_id,
                span_id: span_id(3),
                attributes: vec![text_attribute("redeliver.link", "producer".to_owned())],
                flags: 1,
                ..otlp::span::Link::default()
            }],
            status: Some(otlp::Status {
                code: otlp::status::StatusCode::Error.into(),
                ..otlp::Status::default()
            }),
            flags: 1,
            ..otlp::Span::default()
        };
        let scope = InstrumentationScope {
            name: "redeliver".to_owned(),
            version: "0.1.0".to_owned(),
            ..InstrumentationScope::default()
        };
        let schema_url = "https://opentelemetry.io/schemas/1.37.0".to_owned();
        let attributes = vec![text_attribute("service.name", "orders".to_owned())];
        let expected = ExportTraceServiceRequest {
            resource_spans: vec![otlp::ResourceSpans {
                resource: Some(Resource { attributes, ..Resource::default() }),
                scope_spans: vec![otlp::ScopeSpans {
                    scope: Some(scope),
                    spans: vec![span],
                    schema_url: schema_url.clone(),
                }],
                schema_url,
            }],
        };
        assert_eq!(ExportTraceServiceRequest::decode(&encoded[..]), Ok(expected));
    }

    #[test]
    fn an_encoded_span_keeps_its_kind_and_does_not_end_before_its_start() {
        let context = |is_sampled| SpanContext { trace_id: 1, span_id: 2, is_sampled };
        for (kind, expected) in [
            (SpanKind::Internal, otlp::span::SpanKind::Internal),
            (SpanKind::Client, otlp::span::SpanKind::Client),
            (SpanKind::Consumer, otlp::span::SpanKind::Consumer),
        ] {
            let span = encode_span(Span {
                context: context(true),
                parent: None,
                links: vec![TraceLink { to: context(false), role: "producer" }],
                name: "x".into(),
                kind,
                start: sample_time(),
                end: sample_time() - TimeDelta::seconds(1),
                attributes: Vec::new(),
                events: Vec::new(),
                error: None,
            });
            assert_eq!((span.kind(), &span.status, span.links[0].flags), (expected, &None, 0));
            assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (NANOSECONDS, NANOSECONDS));
            assert_eq!((span.parent_span_id, span.attributes), (Vec::new(), Vec::new()));
        }
    }
}
