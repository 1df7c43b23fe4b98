mod invalid;
mod of_others;
mod plain;
mod surrogates;

use redeliver_core::failure::annotation::{Annotation, Cause, DeadLetter, annotate_attributes};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{Stage, Verdict as GivenUpMessage};
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::folding::FoldedAttributes;
use redeliver_core::message::schema::DataSchema;
use redeliver_core::message::{Attribute, ReceivedMessage, attributes_size};
use redeliver_testing::dead_letters::received_message;

use super::edit::NOT_AN_ASSIGNMENT;
use super::*;
use crate::Filter;

const ID: &str = "0191f3a2-7b1c-7d3e-8f00-000000000001";

fn record(body: &str) -> DeadLetterRecord {
    let attributes = Attributes::from([
        ("tenant".to_owned(), Attribute::string("t1")),
        ("ErrorType".to_owned(), Attribute::string("RETRY_ATTEMPT_EXCEEDED")),
        ("ErrorDetails".to_owned(), Attribute::string("Max retry attempts 2 exceeded")),
    ]);
    DeadLetterRecord::new(received_message(body, attributes, 1))
}

fn valid_record() -> DeadLetterRecord {
    record(&format!(
        r#"{{"metadata":{{"message_id":"{ID}","retry_attempt":2}},"data":{{"n":-0,"big":1e400}}}}"#
    ))
}

fn plan(edit: &str) -> RedrivePlan {
    RedrivePlan { edit: Some(BodyEdit::new(edit).unwrap()), max_generation: 3, ..RedrivePlan::default() }
}

fn expect_send(verdict: RedriveDecision) -> Content {
    match verdict {
        RedriveDecision::Send(send_back) => send_back.message.into_content(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_edit_keeps_numbers_that_jq_cannot_represent() {
    let content = expect_send(plan(".body.data.fixed = 1").decide(&valid_record()).unwrap());
    let body = format!(
        r#"{{"metadata":{{"message_id":"{ID}","redrive_generation":1}},"data":{{"n":-0,"big":1e400,"fixed":1}}}}"#
    );
    assert_eq!(content.body, body);
    assert_eq!(
        content.attributes.keys().collect::<Vec<_>>(),
        ["tenant"],
        "without a DeadLetter, by their names"
    );
}

#[test]
fn a_redriven_message_keeps_its_last_attempt_trace_even_if_edited() {
    let span = |digit: &str| format!("00-{}-{}-01", digit.repeat(32), digit.repeat(16));
    let document = |last_attempt: Option<String>| {
        let mut document = serde_json::json!({
            "stage": "failed-message-processor", "cause": { "type": "T", "message": "" },
            "dead_lettered_at": "2026-07-25T17:20:00Z", "sqs_message_id": "1", "fingerprint": "0000000000000000",
        });
        if let Some(last_attempt) = last_attempt {
            document["last_attempt_traceparent"] = last_attempt.into();
        }
        Attribute::string(document.to_string())
    };
    let body = valid_record().message.body.replace(
        r#""retry_attempt""#,
        &format!(r#""last_attempt_traceparent":"{}","retry_attempt""#, span("1")),
    );
    for (of_record, expected) in [(Some(span("2")), span("2")), (None, span("1"))] {
        let mut attributes = record(&body).message.attributes;
        attributes.insert("DeadLetter".to_owned(), document(of_record));
        let dead = DeadLetterRecord::new(received_message(&body, attributes, 1));
        for plan in
            [plan(".body.data.fixed = 1"), RedrivePlan { max_generation: 3, ..RedrivePlan::default() }]
        {
            let body = expect_send(plan.decide(&dead).unwrap()).body;
            let body: serde_json::Value = serde_json::from_str(&body.replace("1e400", "1")).unwrap();
            assert_eq!(body["metadata"]["last_attempt_traceparent"], expected);
            assert_eq!(body["metadata"]["redrive_generation"], 1);
        }
    }
}

#[test]
fn a_fifo_redrive_deduplicates_dead_letters_and_requires_a_group() {
    let plan = RedrivePlan { to_fifo: true, max_generation: 3, ..RedrivePlan::default() };
    assert_eq!(plan.decide(&valid_record()).unwrap(), RedriveDecision::Stays(StayReason::WithoutGroup));
    let mut grouped = valid_record();
    grouped.message.message_group_id = Some("account-7".to_owned());
    let content = expect_send(plan.decide(&grouped).unwrap());
    assert_eq!(content.message_group_id.as_deref(), Some("account-7"));
    let repeated = expect_send(plan.decide(&grouped).unwrap());
    assert_eq!(repeated.deduplication_id, content.deduplication_id);
    let edited = RedrivePlan {
        edit: Some(BodyEdit::new(".body.data.fixed = 1").unwrap()),
        ..RedrivePlan { to_fifo: true, max_generation: 3, ..RedrivePlan::default() }
    };
    assert_ne!(expect_send(edited.decide(&grouped).unwrap()).deduplication_id, content.deduplication_id);
    let standard = RedrivePlan { to_fifo: false, ..plan };
    assert_eq!(expect_send(standard.decide(&grouped).unwrap()).deduplication_id, None, "SQS would refuse it");
}

#[test]
fn a_body_edited_by_hand_keeps_the_bytes_of_unchanged_members() {
    let replacement_plan = |body: &str| RedrivePlan {
        edit: Some(BodyEdit::replace_body(body)),
        max_generation: 3,
        ..RedrivePlan::default()
    };
    let rewritten = valid_record().message.body.replace("\"n\":-0", "\"n\" : 7").replace(':', " :\n ");
    let content = expect_send(replacement_plan(&rewritten).decide(&valid_record()).unwrap());
    let body = format!(
        r#"{{"metadata":{{"message_id":"{ID}","redrive_generation":1}},"data":{{"n":7,"big":1e400}}}}"#
    );
    assert_eq!(content.body, body);
    let RedriveDecision::Send(same) =
        replacement_plan(&valid_record().message.body).decide(&valid_record()).unwrap()
    else {
        panic!("it goes back")
    };
    assert!(!same.edited);
    let decide_replaced = |body: &str| replacement_plan(body).decide(&valid_record()).unwrap();
    for (body, why) in [
        ("{", "the body is not JSON: EOF while parsing an object at line 1 column 1"),
        ("[]", "the body is not a JSON object, before or after"),
        ("{}", "it changes /metadata/retry_attempt, which cannot be changed"),
    ] {
        assert_eq!(
            decide_replaced(body),
            RedriveDecision::Stays(StayReason::EditRefused(why.to_owned())),
            "{body}"
        );
    }
}

/// Returns the attributes of the message that the plan sends back for a final record with these attributes.
fn resent_attributes(attributes: Attributes) -> Attributes {
    let message = ReceivedMessage { attributes, ..valid_record().message };
    expect_send(
        RedrivePlan { max_generation: 3, ..RedrivePlan::default() }
            .decide(&DeadLetterRecord::new(message))
            .unwrap(),
    )
    .attributes
}

/// A document that a function wrote into the trace header for lack of space does not belong to the producer.
#[test]
fn a_redrive_strips_the_trace_header_field_that_redeliver_added() {
    let verdict = GivenUpMessage::from_code(DeadLetterReason::MessageTooLarge);
    for producers in [None, Some("Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")] {
        let trace_header = Some(verdict.add_to_trace_header(producers));
        let record = DeadLetterRecord::new(ReceivedMessage { trace_header, ..valid_record().message });
        let plan = RedrivePlan { max_generation: 3, ..RedrivePlan::default() };
        assert_eq!(expect_send(plan.decide(&record).unwrap()).trace_header.as_deref(), producers);
    }
}

#[test]
fn a_raw_record_keeps_all_producer_attributes() {
    let producer_attributes = Attributes::from([
        (ERROR_TYPE.to_owned(), Attribute::string("INVALID_MESSAGE_SCHEMA")),
        (ERROR_DETAILS.to_owned(), Attribute::string("mine")),
    ]);
    let failure = r#"{"type":"Panic","details":"the target panicked","kind":"transient","verdict":"RETRY_ATTEMPT_EXCEEDED"}"#;
    let mut raw = producer_attributes.clone();
    raw.insert("Failure".to_owned(), Attribute::string(failure));
    assert_eq!(resent_attributes(raw), producer_attributes);
}

#[test]
fn producer_details_survive_in_a_record_without_room_for_its_document() {
    let producer_attributes = Attributes::from([(ERROR_DETAILS.to_owned(), Attribute::string("mine"))]);
    let annotation = Annotation {
        reason: DeadLetterReason::RetryAttemptExceeded.into(),
        details: "Max retry attempts 5 exceeded".to_owned(),
        record: DeadLetter {
            last_attempt_traceparent: None,
            last_attempt_logs: None,
            stage: Stage::FailedMessageProcessor.into(),
            cause: Cause { error_type: "Panic".to_owned(), message: String::new(), ..Cause::default() },
            attempts: Some(5),
            redrive_generation: None,
            held_seconds: None,
            redrive_count: None,
            first_sent_time: None,
            dead_lettered_at: "2026-07-25T18:20:00.000000Z".to_owned(),
            died_at: None,
            source_queue_arn: None,
            sqs_message_id: "m".to_owned(),
            fingerprint: "0123456789abcdef".to_owned(),
            folded_attributes: FoldedAttributes::new(),
        },
    };
    let annotate_with_room = |left: usize| {
        annotate_attributes(
            &producer_attributes,
            MESSAGE_BYTES_MAX - attributes_size(&producer_attributes) - left,
            &annotation,
        )
    };
    assert_eq!(annotate_with_room(100), producer_attributes);
    assert_eq!(annotate_with_room(1000).len(), 3);
    for left in [0, 100, 1000] {
        assert_eq!(resent_attributes(annotate_with_room(left)), producer_attributes, "{left}");
    }
}

#[test]
fn an_unknown_error_type_beside_a_forged_document_belongs_to_the_producer() {
    // It folds attributes that are also present unfolded, so the annotator did not write it.
    let document = concat!(
        r#"{"stage":"message-processor","cause":{"type":"T","message":"m"},"#,
        r#""dead_lettered_at":"2026-07-25T18:20:00.000000Z","sqs_message_id":"m","fingerprint":"0123456789abcdef","#,
        r#""folded_attributes":{"tenant":{"data_type":"String","text":"x"}}}"#
    );
    let producer_attributes =
        [("tenant", "t1"), (ERROR_TYPE, "MINE"), (ERROR_DETAILS, "mine, too"), ("DeadLetter", document)];
    let producer_attributes =
        Attributes::from(producer_attributes.map(|(name, text)| (name.to_owned(), Attribute::string(text))));
    assert_eq!(resent_attributes(producer_attributes.clone()), producer_attributes);
}

/// The record is recognized by its document, since this version does not know its code.
#[test]
fn a_final_record_from_a_later_version_is_sent_back_whole() {
    let document = concat!(
        r#"{"stage":"circuit-breaker","cause":{"type":"T","message":"m","code":7},"redrive_generation":1,"held_seconds":60,"#,
        r#""dead_lettered_at":"2026-07-25T18:20:00.000000Z","sqs_message_id":"m","fingerprint":"0123456789abcdef","#,
        r#""folded_attributes":{"a":{"data_type":"String","text":"x","since":1}}}"#
    );
    let mut attributes = Attributes::from([("tenant".to_owned(), Attribute::string("t1"))]);
    let folded = [("a", "x")].map(|(name, text)| (name.to_owned(), Attribute::string(text)));
    let producer: Attributes = attributes.clone().into_iter().chain(folded).collect();
    for (name, text) in [(ERROR_TYPE, "TARGET_GONE"), (ERROR_DETAILS, "gone"), ("DeadLetter", document)] {
        attributes.insert(name.to_owned(), Attribute::string(text));
    }
    let record = DeadLetterRecord::new(ReceivedMessage { attributes, ..valid_record().message });
    assert_eq!((&*record.error_type, &*record.error_details), ("TARGET_GONE", "gone"));
    let content =
        expect_send(RedrivePlan { max_generation: 3, ..RedrivePlan::default() }.decide(&record).unwrap());
    assert_eq!(content.attributes, producer);
    assert!(content.body.contains(r#""redrive_generation":2"#), "{}", content.body);
}

#[test]
fn an_edit_keeps_objects_whose_keys_the_json_library_reserves() {
    let body = format!(
        r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{"a":[{{"$serde_json::private::Number":"1"}},1]}}}}"#
    );
    let edited = expect_send(plan(".body.data.a[1] = 2").decide(&record(&body)).unwrap());
    let data = r#""data":{"a":[{"$serde_json::private::Number":"1"},2]}}"#;
    assert!(edited.body.ends_with(data), "{}", edited.body);
}

#[test]
fn an_edit_that_changes_nothing_does_not_count_as_an_edit() {
    let RedriveDecision::Send(send_back) = plan(".").decide(&valid_record()).unwrap() else {
        panic!("it is valid")
    };
    assert!(!send_back.edited);
}

/// The console's plan for an edit shows only the messages that the edit changes.
#[test]
fn edited_only_leaves_messages_unchanged_by_the_edit_in_the_dlq() {
    let decide_edited_only =
        |edit| RedrivePlan { edited_only: true, ..plan(edit) }.decide(&valid_record()).unwrap();
    assert_eq!(decide_edited_only("."), RedriveDecision::Stays(StayReason::NotEdited));
    assert_eq!(
        decide_edited_only(".body.data.fixed = 1"),
        plan(".body.data.fixed = 1").decide(&valid_record()).unwrap()
    );
}

#[test]
fn an_edit_can_repair_an_invalid_message_and_is_validated() {
    let invalid = record(&format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":[]}}"#));
    assert_eq!(
        RedrivePlan { max_generation: 3, ..RedrivePlan::default() }.decide(&invalid).unwrap(),
        RedriveDecision::Stays(StayReason::NotAMessage("/data is not of type \"object\"".to_owned()))
    );
    let repaired = expect_send(plan(".body.data = {}").decide(&invalid).unwrap());
    assert!(repaired.body.ends_with(r#""data":{}}"#), "{}", repaired.body);

    let schema = DataSchema::new(r#"{"required":["order"]}"#).unwrap();
    let with_schema = RedrivePlan { schema: MessageSchema::new(Some(schema)), ..plan(".body.data.x = 1") };
    assert!(matches!(
        with_schema.decide(&valid_record()).unwrap(),
        RedriveDecision::Stays(StayReason::NotAMessage(_))
    ));
}

#[test]
fn an_edit_outside_the_editable_part_is_refused() {
    for (edit, why) in [
        (r#".body.metadata.message_id = "x""#, "it changes /metadata/message_id, which cannot be changed"),
        ("del(.body.metadata.retry_attempt)", "it changes /metadata/retry_attempt, which cannot be changed"),
        (".attributes.tenant = 2", "it changes .attributes; only .body can be changed"),
        (".bdy = 2", "it adds .bdy; only .body can be changed"),
        (".body.data.order = 2 | .note = 1", "it adds .note; only .body can be changed"),
        ("1", NOT_AN_ASSIGNMENT),
        (".body", NOT_AN_ASSIGNMENT),
        (".body.data", NOT_AN_ASSIGNMENT),
        (".body = 1", "the body is not a JSON object, before or after"),
    ] {
        let verdict = plan(edit).decide(&valid_record()).unwrap();
        assert_eq!(verdict, RedriveDecision::Stays(StayReason::EditRefused(why.to_owned())), "{edit}");
    }
}

#[test]
fn a_message_on_which_the_filter_fails_stays_in_the_dlq() {
    let pick = Pick::with_filter(Filter::new(".body + 1 | error").unwrap());
    let picking = RedrivePlan { pick, ..RedrivePlan::default() };
    let why = "cannot calculate with two values".to_owned();
    assert_eq!(
        picking.decide(&valid_record()).unwrap(),
        RedriveDecision::Stays(StayReason::NotJudged(why.clone()))
    );
    let editing = plan(".body.data.n = (.body | . + 1)").decide(&valid_record()).unwrap();
    assert_eq!(editing, RedriveDecision::Stays(StayReason::EditRefused(why)));
}
