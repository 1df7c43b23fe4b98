//! Spans as OTLP has them ("opentelemetry/proto/trace/v1/trace.proto"). Written without the types of
//! `opentelemetry-proto`, which the tests read it with: with those, spans took 20 % of a batch's instructions.

use redeliver_core::message::Timestamp;
use redeliver_core::trace::messaging::SCHEMA_URL;
use redeliver_core::trace::{AttributeValue, Link, Span, SpanContext, SpanEvent, SpanKind};

use super::protobuf::Encoder;

/// A sampled span's flags, and the code of an error.
const SAMPLED: u32 = 1;
const STATUS_CODE_ERROR: u64 = 2;
/// The usual size of a span, or a little less.
const SPAN_BYTES: usize = 400;

/// An `ExportTraceServiceRequest` with these spans, of a resource with these attributes.
#[must_use]
pub fn encoded_spans(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let mut request = Encoder::with_capacity(SPAN_BYTES * (spans.len() + 2));
    request.message(1, |resource_spans| {
        resource_spans.message(1, |encoded| {
            for (name, value) in resource {
                attribute(encoded, 1, name, |any| any.text(1, value));
            }
        });
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.text(1, SCOPE_NAME);
                scope.text(2, SCOPE_VERSION);
            });
            for span in spans {
                scope_spans.message(2, |encoded| encode_span(encoded, span));
            }
            scope_spans.text(3, SCHEMA_URL);
        });
        resource_spans.text(3, SCHEMA_URL);
    });
    request.into_bytes()
}

/// The instrumentation scope of all that redeliver exports.
pub const SCOPE_NAME: &str = "redeliver";
pub const SCOPE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A time as OTLP has it.
#[must_use]
pub fn nanoseconds(moment: Timestamp) -> u64 {
    moment.timestamp_nanos_opt().and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).unwrap_or(0)
}

fn encode_span(encoded: &mut Encoder, span: &Span) {
    let Span { context, parent, links, name, kind, start, end, attributes: own, events, error } = span;
    ids(encoded, *context);
    if let Some(parent) = parent {
        encoded.bytes(4, &parent.span_id.to_be_bytes());
    }
    encoded.text(5, name);
    encoded.number(
        6,
        match kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
            SpanKind::Consumer => 5,
        },
    );
    encoded.fixed64(7, nanoseconds(*start));
    encoded.fixed64(8, nanoseconds((*end).max(*start)));
    attributes(encoded, 9, own);
    if let Some(error) = error {
        attribute(encoded, 9, "error.type", |any| any.text(1, error));
    }
    for SpanEvent { name, at, attributes: own } in events {
        encoded.message(11, |event| {
            event.fixed64(1, nanoseconds(*at));
            event.text(2, name);
            attributes(event, 3, own);
        });
    }
    for Link { to, role } in links {
        encoded.message(13, |link| {
            ids(link, *to);
            attribute(link, 4, "redeliver.link", |any| any.text(1, role));
            link.fixed32(6, u32::from(to.is_sampled));
        });
    }
    if error.is_some() {
        encoded.message(15, |status| status.number(3, STATUS_CODE_ERROR));
    }
    encoded.fixed32(16, SAMPLED);
}

fn ids(encoded: &mut Encoder, SpanContext { trace_id, span_id, .. }: SpanContext) {
    encoded.bytes(1, &trace_id.to_be_bytes());
    encoded.bytes(2, &span_id.to_be_bytes());
}

fn attributes(encoded: &mut Encoder, field: u32, attributes: &[(&'static str, AttributeValue)]) {
    for (name, value) in attributes {
        attribute(encoded, field, name, |any| match value {
            AttributeValue::Text(text) => any.text(1, text),
            AttributeValue::Number(number) => any.number(3, number.cast_unsigned()),
        });
    }
}

/// A `KeyValue`; `value` writes its `AnyValue`.
fn attribute(encoded: &mut Encoder, field: u32, name: &str, value: impl FnOnce(&mut Encoder)) {
    encoded.message(field, |pair| {
        pair.text(1, name);
        pair.message(2, value);
    });
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{
        ResourceSpans, ScopeSpans, Span as Decoded, Status, span, status,
    };
    use prost::Message as _;
    use redeliver_core::message::metadata::parse_rfc3339;

    use super::*;

    const NANOSECONDS: u64 = 1_785_000_000_000_001_000;

    fn pair(key: &str, value: Value) -> KeyValue {
        let value = Some(AnyValue { value: Some(value) });
        KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
    }

    fn text(key: &str, value: &str) -> KeyValue {
        pair(key, Value::StringValue(value.to_owned()))
    }

    /// Lengths of one, two and three bytes.
    #[test]
    fn opentelemetrys_own_types_read_every_member() {
        let at = parse_rfc3339("2026-07-25T17:20:00.000001Z").unwrap();
        assert_eq!(nanoseconds(at), NANOSECONDS);
        let context = |span_id| SpanContext { trace_id: 1 << 120 | 7, span_id, is_sampled: true };
        for length in [0, 100, 127, 128, 300, 16_383, 16_384, 70_000] {
            let long = "é".repeat(length / 2) + if length % 2 == 1 { "x" } else { "" };
            let encoded = encoded_spans(
                &[("service.name".to_owned(), long.clone())],
                &[Span {
                    context: context(2),
                    parent: Some(context(1)),
                    links: vec![Link { to: context(3), role: "producer" }],
                    name: "process orders".into(),
                    kind: SpanKind::Consumer,
                    start: at,
                    end: at - chrono::TimeDelta::seconds(1),
                    attributes: vec![
                        ("text", long.clone().into()),
                        ("number", AttributeValue::Number(-5)),
                        ("large", 4_000_000_000.into()),
                    ],
                    events: vec![SpanEvent { name: "held", at, attributes: vec![("n", 300.into())] }],
                    error: Some("HttpStatus.503".into()),
                }],
            );
            let id = |span_id: u64| {
                (vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7], span_id.to_be_bytes().to_vec())
            };
            let ((trace_id, span_id), parent, linked) = (id(2), id(1), id(3));
            let decoded = Decoded {
                trace_id,
                span_id,
                parent_span_id: parent.1,
                name: "process orders".to_owned(),
                kind: span::SpanKind::Consumer.into(),
                start_time_unix_nano: NANOSECONDS,
                end_time_unix_nano: NANOSECONDS,
                attributes: vec![
                    text("text", &long),
                    pair("number", Value::IntValue(-5)),
                    pair("large", Value::IntValue(4_000_000_000)),
                    text("error.type", "HttpStatus.503"),
                ],
                events: vec![span::Event {
                    time_unix_nano: NANOSECONDS,
                    name: "held".to_owned(),
                    attributes: vec![pair("n", Value::IntValue(300))],
                    ..span::Event::default()
                }],
                links: vec![span::Link {
                    trace_id: linked.0,
                    span_id: linked.1,
                    attributes: vec![text("redeliver.link", "producer")],
                    flags: 1,
                    ..span::Link::default()
                }],
                status: Some(Status { code: status::StatusCode::Error.into(), ..Status::default() }),
                flags: 1,
                ..Decoded::default()
            };
            let scope = InstrumentationScope {
                name: "redeliver".to_owned(),
                version: "0.1.0".to_owned(),
                ..InstrumentationScope::default()
            };
            let schema_url = "https://opentelemetry.io/schemas/1.37.0".to_owned();
            let resource = Resource { attributes: vec![text("service.name", &long)], ..Resource::default() };
            let expected = ExportTraceServiceRequest {
                resource_spans: vec![ResourceSpans {
                    resource: Some(resource),
                    scope_spans: vec![ScopeSpans {
                        scope: Some(scope),
                        spans: vec![decoded],
                        schema_url: schema_url.clone(),
                    }],
                    schema_url,
                }],
            };
            assert_eq!(ExportTraceServiceRequest::decode(&encoded[..]), Ok(expected), "{length}");
        }
    }

    #[test]
    fn a_span_without_an_error_has_its_kind_and_does_not_end_before_its_start() {
        let at = parse_rfc3339("2026-07-25T17:20:00.000001Z").unwrap();
        let context = |is_sampled| SpanContext { trace_id: 1, span_id: 2, is_sampled };
        for (kind, expected) in [
            (SpanKind::Internal, span::SpanKind::Internal),
            (SpanKind::Client, span::SpanKind::Client),
            (SpanKind::Consumer, span::SpanKind::Consumer),
        ] {
            let encoded = encoded_spans(
                &[],
                &[Span {
                    context: context(true),
                    parent: None,
                    links: vec![Link { to: context(false), role: "producer" }],
                    name: "x".into(),
                    kind,
                    start: at,
                    end: at - chrono::TimeDelta::seconds(1),
                    attributes: Vec::new(),
                    events: Vec::new(),
                    error: None,
                }],
            );
            let decoded = ExportTraceServiceRequest::decode(&encoded[..]).unwrap();
            let decoded = &decoded.resource_spans[0].scope_spans[0].spans[0];
            assert_eq!((decoded.kind(), &decoded.status, decoded.links[0].flags), (expected, &None, 0));
            assert_eq!(
                (decoded.start_time_unix_nano, decoded.end_time_unix_nano),
                (NANOSECONDS, NANOSECONDS)
            );
        }
    }
}
