//! Dead letters that redeliver did not write.

use proptest::prelude::*;
use redeliver_core::limits::ATTRIBUTES_MAX;
use redeliver_core::message::AttributeValue;
use redeliver_core::message::plain::{PlainMessages, REDELIVER};

use super::*;

fn plan_with_plain() -> RedrivePlan {
    let schema = MessageSchema::default().with_plain(PlainMessages::default());
    RedrivePlan { schema, max_generation: 3, ..RedrivePlan::default() }
}

fn any_attribute() -> impl Strategy<Value = Attribute> {
    let text = prop_oneof![("String|String\\.uuid", "[ -~]{1,12}"), ("Number|Number\\.int", "[0-9]{1,9}")];
    let text = text.prop_map(|(data_type, text)| Attribute { data_type, value: AttributeValue::Text(text) });
    let binary = prop::collection::vec(any::<u8>(), 1..12)
        .prop_map(|bytes| Attribute { data_type: "Binary".to_owned(), value: AttributeValue::Binary(bytes) });
    let document = "(\\{\\}|\\[\\]|null|\\{\"type\":\"E\",\"details\":\"x\"\\}|MESSAGE_EXPIRED)";
    prop_oneof![3 => text, 1 => binary, 1 => document.prop_map(Attribute::string)]
}

/// Generates attribute names used by redeliver and by a framework.
fn any_name() -> impl Strategy<Value = String> {
    let reserved = ["Failure", "ErrorType", "ErrorDetails", "DeadLetter", REDELIVER].map(str::to_owned);
    prop_oneof![1 => prop::sample::select(reserved.to_vec()), 1 => "[A-Za-z][A-Za-z0-9_-]{0,8}"]
}

proptest! {
    /// A framework may fail to read its own message if a header is missing or added.
    #[test]
    fn a_foreign_message_goes_back_byte_for_byte(
        body in prop_oneof![
            "[ -~]{1,40}",
            Just(r#"{"metadata":{"message_id":"no UUID"},"data":{}}"#.to_owned()),
            Just(r#"{ "n": 1e400, "n": 2 }"#.to_owned()),
        ],
        attributes in prop::collection::btree_map(any_name(), any_attribute(), 0..=ATTRIBUTES_MAX),
        trace_header in prop::option::of("Root=1-[0-9a-f]{8}-[0-9a-f]{24};Sampled=1"),
        group in prop::option::of("[a-z]{1,8}"),
        to_fifo in any::<bool>(),
    ) {
        let attributes: Attributes = attributes.into_iter().collect();
        let message_group_id = if to_fifo { Some(group.unwrap_or_else(|| "g".to_owned())) } else { group };
        let message = ReceivedMessage { trace_header, message_group_id, ..received_message(&body, attributes, 1) };
        let plan = RedrivePlan { to_fifo, ..plan_with_plain() };
        let content = expect_send(plan.decide(&DeadLetterRecord::new(message.clone())).unwrap());
        prop_assert_eq!(content.body, message.body);
        prop_assert_eq!(content.attributes, message.attributes);
        prop_assert_eq!(content.trace_header, message.trace_header);
        prop_assert_eq!(content.message_group_id, message.message_group_id);
    }
}

#[test]
fn only_the_edit_changes_a_foreign_message() {
    let attributes = Attributes::from([("Failure".to_owned(), Attribute::string("x"))]);
    let record = DeadLetterRecord::new(received_message(r#"{"n":1.50}"#, attributes.clone(), 1));
    let edit = || Some(BodyEdit::new(".body.n = 2").unwrap());
    let content = expect_send(RedrivePlan { edit: edit(), ..plan_with_plain() }.decide(&record).unwrap());
    assert_eq!((content.body.as_str(), content.attributes), (r#"{"n":2}"#, attributes));
    let renewing = RedrivePlan { edit: edit(), new_id: true, ..plan_with_plain() };
    assert_eq!(renewing.decide(&record).unwrap(), RedriveDecision::Stays(StayReason::WithoutId));
}

#[test]
fn a_foreign_message_stays_without_plain_and_the_reason_suggests_it() {
    let stay_reason = |plan: RedrivePlan, body: &str| {
        let plan = RedrivePlan { max_generation: 3, ..plan };
        let record = DeadLetterRecord::new(received_message(body, Attributes::new(), 1));
        let RedriveDecision::Stays(reason) = plan.decide(&record).unwrap() else {
            panic!("{body} is not a message")
        };
        reason.to_string()
    };
    let advises = |plan, body| stay_reason(plan, body).ends_with("; to send it back unchanged, add --plain");
    assert!(advises(RedrivePlan::default(), "order 7"));
    assert_eq!(
        expect_send(
            plan_with_plain()
                .decide(&DeadLetterRecord::new(received_message("order 7", Attributes::new(), 1)))
                .unwrap()
        )
        .body,
        "order 7"
    );
    let broken = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000001"},"data":[]}"#;
    assert!(!advises(RedrivePlan::default(), broken), "an invalid envelope");
    let from_deployment = RedrivePlan { from_deployment: true, ..RedrivePlan::default() };
    assert!(!advises(from_deployment, "order 7"), "--plain would add metadata");
    let editing = RedrivePlan { edit: Some(BodyEdit::new(".").unwrap()), ..RedrivePlan::default() };
    assert!(!advises(editing, "order 7"), "the edit has to repair it");
}

/// The code is also in the trace header. Without that, any producer could have written the `ErrorType`.
#[test]
fn a_final_record_without_its_document_is_not_foreign() {
    let verdict = GivenUpMessage::from_code(DeadLetterReason::RetryAttemptExceeded);
    let code = Attributes::from([(ERROR_TYPE.to_owned(), Attribute::string("RETRY_ATTEMPT_EXCEEDED"))]);
    let trace_header = Some(verdict.add_to_trace_header(None));
    let record =
        DeadLetterRecord::new(ReceivedMessage { trace_header, ..received_message("no envelope", code, 1) });
    let content = expect_send(plan_with_plain().decide(&record).unwrap());
    assert_eq!(content.attributes.keys().collect::<Vec<_>>(), [REDELIVER]);
    assert_eq!(content.trace_header, None);
}

#[test]
fn foreign_bodies_must_match_the_given_schema() {
    let body = DataSchema::new(r#"{"type":"object"}"#).unwrap();
    let schema =
        MessageSchema::default().with_plain(PlainMessages { body: Some(body), ..PlainMessages::default() });
    let plan = RedrivePlan { schema, ..plan_with_plain() };
    let decide =
        |body: &str| plan.decide(&DeadLetterRecord::new(received_message(body, Attributes::new(), 1)));
    assert!(matches!(decide("[]").unwrap(), RedriveDecision::Stays(StayReason::NotAMessage(_))));
    assert_eq!(expect_send(decide("{}").unwrap()).body, "{}");
}

/// Each dead letter of a shared DLQ goes back to its own queue, as in SQS's own redrive.
#[test]
fn a_message_in_a_shared_dlq_is_selected_only_for_its_source() {
    let arn = |name: &str| format!("arn:aws:sqs:us-east-1:000000000000:{name}");
    let letter = |from: Option<&str>| {
        let redriven_from = from.map(arn);
        DeadLetterRecord::new(ReceivedMessage {
            redriven_from,
            ..received_message("x", Attributes::new(), 1)
        })
    };
    let decide = |sources: Sources, from| {
        let plan = RedrivePlan { sources, ..plan_with_plain() };
        plan.decide(&letter(from)).unwrap()
    };
    let only_orders = || Sources::Only(arn("orders"));
    assert_eq!(expect_send(decide(only_orders(), Some("orders"))).body, "x");
    assert_eq!(decide(only_orders(), Some("mails")), RedriveDecision::NotSelected);
    assert_eq!(decide(only_orders(), None), RedriveDecision::NotSelected);
    let known_sources = || Sources::Known { unusable: [(arn("gone"), "deleted".to_owned())].into() };
    assert_eq!(expect_send(decide(known_sources(), Some("mails"))).body, "x");
    assert_eq!(decide(known_sources(), None), RedriveDecision::Stays(StayReason::UnknownSource));
    assert_eq!(
        decide(known_sources(), Some("gone")),
        RedriveDecision::Stays(StayReason::UnusableSource("deleted".to_owned()))
    );
    assert_eq!(
        decide(known_sources(), Some("orders.fifo")),
        RedriveDecision::Stays(StayReason::WithoutGroup)
    );
}
