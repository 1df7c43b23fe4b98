use proptest::prelude::*;

use super::*;
use crate::handler::{Invocation, Message};
use crate::message::{BodyForm, ReceivedMessage, Timestamp};
use crate::testing::received_message;

const PARENT: &str = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01";
const XRAY: &str = "Root=1-00000001-000000000000000000000002;Parent=0000000000000003;Sampled=0;Lineage=a87bd80c:0|68fd508a:5";
const CLOUD_EVENT: &str = r#"{"specversion":"1.0","traceparent":"00-0000000000000000000000000000000a-000000000000000b-00","tracestate":"x=1"}"#;

/// Returns the context of a message with these attributes, this body, and this X-Ray header.
fn read_context(attributes: &[(&str, &str)], body: &str, trace_header: Option<&str>) -> Option<TraceContext> {
    let attributes =
        attributes.iter().map(|(name, text)| ((*name).to_owned(), Attribute::string(*text))).collect();
    let record = ReceivedMessage { trace_header: trace_header.map(str::to_owned), ..received_message(None) };
    let form = match body {
        "" => BodyForm::Envelope,
        _ => BodyForm::Plain { idempotency_key: None },
    };
    let message = Message {
        body,
        message_id: "0191f3a2-7b1c-7d3e-8f00-000000000001",
        form: &form,
        retry_attempt: 0,
        redrive_generation: 0,
        held_seconds: 0,
        attributes: &attributes,
    };
    Invocation { trace: None, logs: None, message: &message, record: &record, end: Timestamp::MAX_UTC }
        .trace_context()
}

fn read_parent(attributes: &[(&str, &str)], body: &str, trace_header: Option<&str>) -> Option<String> {
    read_context(attributes, body, trace_header).map(|context| context.traceparent())
}

#[test]
fn the_trace_context_is_read_from_attribute_then_cloud_event_then_x_ray() {
    let event_parent = "00-0000000000000000000000000000000a-000000000000000b-00";
    let xray_parent = "00-00000001000000000000000000000002-0000000000000003-00";
    let attribute = [(TRACEPARENT, PARENT)];
    assert_eq!(read_parent(&attribute, CLOUD_EVENT, Some(XRAY)).as_deref(), Some(PARENT));
    assert_eq!(read_parent(&[], CLOUD_EVENT, Some(XRAY)).as_deref(), Some(event_parent));
    assert_eq!(read_parent(&[], "", Some(XRAY)).as_deref(), Some(xray_parent));
    assert_eq!(read_parent(&[], "", None), None);
    let wrong = [(TRACEPARENT, "00-5759E988BD862E3FE1BE46A994272793-53995c3f42cd8ad8-01")];
    assert_eq!(
        read_parent(&wrong, CLOUD_EVENT, Some(XRAY)).as_deref(),
        Some(event_parent),
        "an invalid attribute is ignored"
    );
    assert_eq!(read_context(&[], CLOUD_EVENT, None).unwrap().tracestate(), Some("x=1"));
    let not_an_event = CLOUD_EVENT.replace("specversion", "version");
    assert_eq!(read_parent(&[], &not_an_event, None), None);
}

#[test]
fn an_envelope_with_a_traceparent_is_not_a_cloud_event() {
    let attributes = Attributes::new();
    let message = Message {
        body: CLOUD_EVENT,
        message_id: "0191f3a2-7b1c-7d3e-8f00-000000000001",
        form: &BodyForm::Envelope,
        retry_attempt: 0,
        redrive_generation: 0,
        held_seconds: 0,
        attributes: &attributes,
    };
    let record = received_message(None);
    let invocation =
        Invocation { trace: None, logs: None, message: &message, record: &record, end: Timestamp::MAX_UTC };
    assert_eq!(invocation.trace_context(), None);
}

#[test]
fn only_a_valid_traceparent_is_accepted() {
    for (text, written) in [
        (PARENT, Some(PARENT)),
        (
            "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-02",
            Some("00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-00"),
        ),
        ("01-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-03-later", Some(PARENT)),
        ("00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01-more", None),
        ("ff-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01", None),
        ("00-00000000000000000000000000000000-53995c3f42cd8ad8-01", None),
        ("00-5759e988bd862e3fe1be46a994272793-0000000000000000-01", None),
        ("00-5759e988bd862e3fe1be46a99427279-53995c3f42cd8ad8-01", None),
        ("00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-1", None),
        ("", None),
    ] {
        assert_eq!(read_parent(&[(TRACEPARENT, text)], "", None).as_deref(), written, "{text}");
    }
}

#[test]
fn an_x_ray_header_requires_a_parent() {
    for text in [
        "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1",
        "Root=1-5759e988bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        "Root=1-5759e988b-d862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        "Root=1-00000000-000000000000000000000000;Sampled=0",
        "Root=2-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
        "Parent=53995c3f42cd8ad8",
    ] {
        assert_eq!(read_parent(&[], "", Some(text)), None, "{text}");
    }
    let header = "Self=1-1-1; Root=1-5759e988-bd862e3fe1be46a994272793; Parent=53995c3f42cd8ad8;Sampled=1";
    assert_eq!(read_parent(&[], "", Some(header)).as_deref(), Some(PARENT));
    let undecided = header.replace("Sampled=1", "Sampled=?");
    assert_eq!(read_parent(&[], "", Some(&undecided)), Some(PARENT.replace("-01", "-00")));
}

#[test]
fn lambda_gets_the_lineage_of_the_invocation_or_else_of_the_message() {
    let context_with_parent = read_context(&[(TRACEPARENT, PARENT)], "", Some(XRAY)).unwrap();
    let start = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    assert_eq!(context_with_parent.xray_header(), start);
    let xray_header = |current| context_with_parent.xray_header_for_lambda(current);
    assert_eq!(xray_header(None), format!("{start};Lineage=a87bd80c:0|68fd508a:5"));
    assert_eq!(xray_header(Some("Root=1;Lineage=25:7")), format!("{start};Lineage=25:7"));
    for forged in ["a\u{e9}", ""] {
        let forged = read_context(&[], "", Some(&format!("{start};Lineage={forged}"))).unwrap();
        assert_eq!(forged.xray_header_for_lambda(None), start);
    }
}

fn read_tracestate(state: &str) -> Option<String> {
    let both = [(TRACEPARENT, PARENT), (TRACESTATE, state)];
    read_context(&both, "", None).unwrap().tracestate().map(str::to_owned)
}

#[test]
fn a_tracestate_longer_than_512_characters_is_dropped() {
    let member = format!("vendor={}", "v".repeat(505));
    assert_eq!(member.len(), 512);
    assert_eq!(read_tracestate(&member), Some(member.clone()));
    assert_eq!(read_tracestate(&format!("{member}v")), None);
    assert_eq!(read_tracestate(&"v".repeat(900 << 10)), None);
    assert_eq!(read_tracestate(""), None);
}

/// Only the producer and the target interpret the members of a `tracestate`.
#[test]
fn a_tracestate_is_propagated_unchanged() {
    for state in ["rojo=00f067aa0ba902b7, congo=t61rcWkgMzE ,,", "a=1,\ta=2", "no member", "A=b=c~"] {
        assert_eq!(read_tracestate(state).as_deref(), Some(state));
    }
}

/// An HTTP client would reject the header, and the call would fail.
#[test]
fn a_tracestate_that_cannot_be_a_header_is_dropped() {
    for state in ["a=1\r\nX-Admin: 1", "a=1\n", "a=\u{e9}", "a=\u{7f}", "a=\u{1}"] {
        assert_eq!(read_tracestate(state), None, "{state:?}");
    }
}

/// A link to an attempt that was not recorded would dangle.
#[test]
fn attempts_on_a_queue_are_linked_to_the_previous_receive() {
    let producer = SpanContext::from_traceparent(PARENT).map(TraceContext::from_span);
    for (continues, producer) in
        [(false, None), (false, producer.clone()), (true, None), (true, producer.clone())]
    {
        let tracer = Tracer::new(|| [0; 32], continues);
        let begin_attempt = |receive_count| {
            let record = ReceivedMessage { receive_count, ..received_message(None) };
            tracer.begin_attempt_on_queue(producer.clone(), None, &record)
        };
        for receive_count in 2..=4 {
            let last = begin_attempt(receive_count - 1).context.span;
            let attempt = begin_attempt(receive_count);
            let (context, parent, links) = (&attempt.context, attempt.parent, attempt.links());
            let is_linked = links.contains(&TraceLink { to: last, role: "last_attempt" });
            assert!(is_linked || parent == Some(last), "{continues} {producer:?} {links:?}");
            assert_eq!(parent.is_some(), continues);
            assert!(parent.is_none_or(|parent| parent.trace_id == context.span.trace_id));
        }
    }
}

#[test]
fn tracestate_stays_in_its_trace_and_the_lineage_is_kept() {
    let producer = read_context(&[(TRACEPARENT, PARENT), (TRACESTATE, "x=1")], "", Some(XRAY)).unwrap();
    let child = producer.with_span(SpanContext { span_id: 5, ..producer.span });
    assert_eq!((child.span.span_id, child.tracestate()), (5, Some("x=1")));
    let other = producer.with_span(SpanContext { trace_id: 5, ..producer.span });
    assert_eq!((other.span.trace_id, other.tracestate()), (5, None));
    for next in [child, other] {
        assert!(next.xray_header_for_lambda(None).ends_with(";Lineage=a87bd80c:0|68fd508a:5"), "{next:?}");
    }
}

#[test]
fn the_target_gets_the_call_span_instead_of_the_producers_context() {
    let attributes = Attributes::from([(TRACEPARENT.to_owned(), Attribute::string(PARENT))]);
    let message = Message {
        body: "",
        message_id: "0191f3a2-7b1c-7d3e-8f00-000000000001",
        form: &BodyForm::Envelope,
        retry_attempt: 0,
        redrive_generation: 0,
        held_seconds: 0,
        attributes: &attributes,
    };
    let call = TraceContext::from_span(SpanContext { trace_id: 1, span_id: 2, is_sampled: true });
    let (record, end) = (received_message(None), Timestamp::MAX_UTC);
    let invocation = Invocation { trace: Some(&call), logs: None, message: &message, record: &record, end };
    assert_eq!(invocation.trace_context(), Some(call.clone()));
}

proptest! {
    /// For any input, headers contain only printable ASCII and, in a `tracestate`, tabs.
    #[test]
    fn trace_headers_from_any_input_are_valid_printable_ascii(
        parent in "(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}|\\PC{0,60}|[0-9a-fA-F-]{50,60})",
        state in "([a-z]{1,3}=[ -~\t]{0,9},){0,4}[\\PC\r\n]{0,9}",
        xray in "(Root=1-[0-9a-f]{8}-[0-9a-f]{24};Parent=[0-9a-f]{16};Sampled=[01?])?;?\\PC{0,40}",
    ) {
        let attributes = [(TRACEPARENT, &*parent), (TRACESTATE, &*state)];
        let Some(context) = read_context(&attributes, "", Some(&xray)) else { return Ok(()) };
        let is_printable = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        prop_assert_eq!(context.traceparent().len(), 55);
        prop_assert!(is_printable(&context.traceparent()) && is_printable(&context.xray_header_for_lambda(Some(&xray))));
        prop_assert!(context.tracestate().is_none_or(|state| is_printable(&state.replace('\t', "")) && state.len() <= 512));
        let parsed = TraceContext::from_headers(&context.traceparent(), context.tracestate());
        prop_assert_eq!(parsed.map(|parsed| parsed.traceparent()), Some(context.traceparent()));
        let from_xray = TraceContext::from_xray_header(&context.xray_header()).map(|parsed| parsed.traceparent());
        prop_assert_eq!(from_xray, Some(context.traceparent()));
    }
}
