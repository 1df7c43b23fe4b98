//! Messages that were found invalid: an edit may change every part, since no target has seen their ids.

use redeliver_testing::dead_letters::annotated_record;

use super::*;

const NEW_ID: &str = "0191f3a2-7b1c-7d3e-8f00-000000000002";

fn invalid_record(body: &str, code: &str) -> DeadLetterRecord {
    let attributes = Attributes::from([
        ("tenant".to_owned(), Attribute::string("t1")),
        ("ErrorType".to_owned(), Attribute::string(code)),
        ("ErrorDetails".to_owned(), Attribute::string("it is wrong")),
    ]);
    DeadLetterRecord::new(received_message(body, attributes, 1))
}

fn expect_planned_send(plan: &RedrivePlan, record: &DeadLetterRecord) -> PlannedSend {
    match plan.decide(record).unwrap() {
        RedriveDecision::Send(planned) => *planned,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_edit_turns_a_body_that_is_not_json_into_a_message() {
    let body = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{"n":1.50}}"#);
    let record = invalid_record(&body, "INVALID_MESSAGE_FORMAT");
    let repaired = expect_planned_send(&plan(r#".body = .body + "}""#), &record);
    assert_eq!(
        repaired.message.content().body,
        format!(r#"{{"metadata":{{"message_id":"{ID}","redrive_generation":1}},"data":{{"n":1.50}}}}"#)
    );
    assert_eq!(
        (repaired.message_id.as_str(), repaired.old_message_id.as_deref(), repaired.edited),
        (ID, None, true)
    );
    assert_eq!(repaired.message.content().attributes.keys().collect::<Vec<_>>(), ["tenant"]);
    let object = plan(&format!(r#".body = {{metadata: {{message_id: "{ID}"}}, data: {{}}}}"#));
    assert_eq!(expect_planned_send(&object, &record).message_id, ID);
    let by_hand = RedrivePlan { edit: Some(BodyEdit::replace_body(&format!("{body}}}\r\n"))), ..plan(".") };
    assert_eq!(expect_planned_send(&by_hand, &record).message_id, ID);
}

#[test]
fn an_invalid_id_is_replaced_and_both_ids_are_reported() {
    let record = invalid_record(
        r#"{"metadata":{"message_id":"order-5"}, "data":{"n":1.50}}"#,
        "INVALID_MESSAGE_SCHEMA",
    );
    let edit = format!(r#".body.metadata.message_id = "{NEW_ID}""#);
    for new_id in [false, true] {
        let repaired = expect_planned_send(&RedrivePlan { new_id, ..plan(&edit) }, &record);
        assert_eq!(
            repaired.message.content().body,
            format!(
                r#"{{"metadata":{{"message_id":"{NEW_ID}","redrive_generation":1}}, "data":{{"n":1.50}}}}"#
            )
        );
        assert_eq!(
            (repaired.message_id.as_str(), repaired.old_message_id.as_deref()),
            (NEW_ID, Some("order-5"))
        );
    }
    let nameless = invalid_record(r#"{"metadata":{},"data":{"n":1}}"#, "INVALID_MESSAGE_SCHEMA");
    for new_id in [false, true] {
        let repaired = expect_planned_send(&RedrivePlan { new_id, ..plan(&edit) }, &nameless);
        assert_eq!((repaired.message_id.as_str(), repaired.old_message_id), (NEW_ID, None), "{new_id}");
    }
    // An edit finds the SQS message id in the document. On SQS, that id is a UUID.
    let sqs_id =
        DeadLetterRecord::new(ReceivedMessage { sqs_message_id: NEW_ID.to_owned(), ..record.message });
    assert_eq!(
        expect_planned_send(&plan(".body.metadata.message_id = .message_id"), &sqs_id).message_id,
        NEW_ID
    );
}

/// The message was found invalid by the message-processor, the only function with the schema for `data`.
#[test]
fn an_edit_may_change_the_id_of_a_message_the_users_schema_refused() {
    let body = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{}}}}"#);
    let edit = plan(&format!(r#".body.metadata.message_id = "{NEW_ID}""#));
    for reason in [DeadLetterReason::InvalidMessageFormat, DeadLetterReason::InvalidMessageSchema] {
        assert_eq!(expect_planned_send(&edit, &invalid_record(&body, reason.as_str())).message_id, NEW_ID);
        // The trace header of a message with full attributes.
        let trace_header = Some(GivenUpMessage::from_code(reason).add_to_trace_header(None));
        let full = ReceivedMessage { trace_header, ..received_message(&body, Attributes::new(), 1) };
        assert_eq!(expect_planned_send(&edit, &DeadLetterRecord::new(full)).message_id, NEW_ID, "{reason:?}");
    }
    let exhausted = invalid_record(&body, DeadLetterReason::RetryAttemptExceeded.as_str());
    assert!(matches!(edit.decide(&exhausted).unwrap(), RedriveDecision::Stays(StayReason::EditRefused(_))));
}

/// An invalid body has no generation, or an older one.
#[test]
fn the_generation_in_the_final_record_counts_toward_the_limit() {
    let body = r#"{"metadata":{"message_id":"order-5"},"data":{}}"#;
    let record_in_generation = |generation: u32| {
        let mut message = annotated_record(body, "INVALID_MESSAGE_SCHEMA", "it is wrong", 1);
        let document = message.attributes["DeadLetter"].text().unwrap();
        let document = document
            .replace(r#""attempts":2"#, &format!(r#""attempts":2,"redrive_generation":{generation}"#));
        message.attributes.insert("DeadLetter".to_owned(), Attribute::string(document));
        DeadLetterRecord::new(message)
    };
    let edit = plan(&format!(r#".body.metadata.message_id = "{NEW_ID}""#));
    let repaired = expect_planned_send(&edit, &record_in_generation(2));
    assert!(repaired.message.content().body.contains(r#""redrive_generation":3"#));
    assert_eq!(repaired.generation, 3, "the journal recognizes it by that generation if it returns");
    assert_eq!(edit.decide(&record_in_generation(3)).unwrap(), RedriveDecision::Stays(StayReason::Parked(3)));
}

#[test]
fn an_edit_can_repair_invalid_metadata_and_resets_the_retry_budget() {
    let record = invalid_record(
        &format!(
            r#"{{"metadata":{{"message_id":"{ID}","retry_attempt":"two","retry_history":7}},"data":{{}}}}"#
        ),
        "INVALID_MESSAGE_SCHEMA",
    );
    let repaired = expect_planned_send(
        &plan("del(.body.metadata.retry_attempt) | .body.metadata.retry_history = []"),
        &record,
    );
    assert_eq!(
        repaired.message.content().body,
        format!(r#"{{"metadata":{{"message_id":"{ID}","redrive_generation":1}},"data":{{}}}}"#)
    );
}

#[test]
fn an_unreadable_message_without_a_verdict_counts_as_invalid() {
    let unannotated_record = |body: &str| DeadLetterRecord::new(received_message(body, Attributes::new(), 1));
    let edit = format!(r#".body.metadata.message_id = "{NEW_ID}""#);
    let no_id = unannotated_record(r#"{"metadata":{},"data":{}}"#);
    assert_eq!(expect_planned_send(&plan(&edit), &no_id).message_id, NEW_ID);
    let body = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{}}}}"#);
    let why = "it changes /metadata/message_id, which cannot be changed".to_owned();
    assert_eq!(
        plan(&edit).decide(&unannotated_record(&body)).unwrap(),
        RedriveDecision::Stays(StayReason::EditRefused(why.clone()))
    );
    // A schema known only to this command does not prove that the message-processor never called the target.
    let schema = MessageSchema::new(Some(DataSchema::new(r#"{"required":["order"]}"#).unwrap()));
    let verdict = RedrivePlan { schema, ..plan(&edit) }.decide(&unannotated_record(&body)).unwrap();
    assert_eq!(verdict, RedriveDecision::Stays(StayReason::EditRefused(why)));
}

#[test]
fn the_result_of_an_edit_must_be_a_valid_message() {
    let stay_reason = |record: &DeadLetterRecord, edit: &str| match plan(edit).decide(record).unwrap() {
        RedriveDecision::Stays(reason) => reason.to_string(),
        other => panic!("{edit}: {other:?}"),
    };
    let text = invalid_record("rubbish", "INVALID_MESSAGE_FORMAT");
    let advice = "would be dead-lettered again immediately: ";
    for (edit, why) in [
        (".", "not JSON: expected value at line 1 column 1"),
        (r#".body = .body + "x""#, "not JSON: expected value at line 1 column 1"),
        (".body = 7", "not a JSON object"),
        (".body = {}", "/metadata is missing; /data is missing"),
    ] {
        assert_eq!(stay_reason(&text, edit), format!("{advice}{why}"), "{edit}");
    }
    let decision = stay_reason(&text, r#".error_type = "MINE" | .body = {}"#);
    assert_eq!(decision, "the edit is refused: it changes .error_type; only .body can be changed");
}

/// A body's duplicate members are lost when it is parsed.
#[test]
fn an_edited_body_loses_its_duplicate_members() {
    let body = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{"a":1}},"data":{{"a":2}}}}"#);
    let record = invalid_record(&body, "INVALID_MESSAGE_FORMAT");
    let repaired = expect_planned_send(&plan(".body |= tojson"), &record).message.into_content();
    assert!(repaired.body.ends_with(r#""data":{"a":2}}"#), "{}", repaired.body);
}
