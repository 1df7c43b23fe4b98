//! Messages without an envelope.

use redeliver_core::message::plain::{PlainMessages, REDELIVER};

use super::*;

const REDELIVER_DOCUMENT: &str =
    r#"{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000001","idempotency_key":"o-17","retry_attempt":5}"#;

/// Returns a final record of a plain message, with this number of producer attributes.
fn plain_record(body: &str, producers: usize) -> DeadLetterRecord {
    let mut attributes: Attributes =
        (0..producers).map(|n| (format!("a{n}"), Attribute::string("x"))).collect();
    attributes.insert(REDELIVER.to_owned(), Attribute::string(REDELIVER_DOCUMENT));
    let attributes = annotate_attributes(&attributes, body.len(), &annotation());
    DeadLetterRecord::new(received_message(body, attributes, 1))
}

fn annotation() -> Annotation {
    Annotation {
        reason: DeadLetterReason::RetryAttemptExceeded.into(),
        details: "Max retry attempts 5 exceeded".to_owned(),
        record: DeadLetter {
            last_attempt_traceparent: None,
            last_attempt_logs: None,
            stage: Stage::FailedMessageProcessor.into(),
            cause: Cause {
                error_type: "Db.Busy".to_owned(),
                message: "later".to_owned(),
                ..Cause::default()
            },
            attempts: Some(5),
            redrive_generation: Some(1),
            held_seconds: None,
            redrive_count: None,
            first_sent_time: None,
            dead_lettered_at: "2026-07-25T17:20:00.000000Z".to_owned(),
            died_at: None,
            source_queue_arn: None,
            sqs_message_id: "m".to_owned(),
            fingerprint: "0123456789abcdef".to_owned(),
            folded_attributes: FoldedAttributes::new(),
        },
    }
}

fn plain_plan() -> RedrivePlan {
    RedrivePlan { max_generation: 9, ..RedrivePlan::default() }
}

#[test]
fn a_redriven_plain_message_keeps_its_body_and_gets_a_fresh_budget() {
    for producers in [0, 3, 9] {
        let record = plain_record("no envelope", producers);
        assert_eq!(record.message_id(), ID);
        assert_eq!(record.metadata.as_ref().unwrap().generation(), 1);
        let content = expect_send(plain_plan().decide(&record).unwrap());
        assert_eq!(content.body, "no envelope");
        let redeliver = content.attributes[REDELIVER].text().unwrap();
        let expected = format!(r#"{{"message_id":"{ID}","idempotency_key":"o-17","redrive_generation":2"#);
        assert!(redeliver.starts_with(&expected), "{redeliver}");
        assert_eq!(content.attributes.len(), producers.min(8) + 1);
        assert!(!content.attributes.contains_key("DeadLetter"));
    }
}

#[test]
fn an_edited_plain_message_keeps_its_id_unless_new_id_is_set() {
    let record = plain_record(r#"{"order":1.50,"n":1e400}"#, 0);
    let content = expect_send(plan(".body.order = 2").decide(&record).unwrap());
    assert_eq!(content.body, r#"{"order":2,"n":1e400}"#);
    assert!(content.attributes[REDELIVER].text().unwrap().contains(r#""idempotency_key":"o-17""#));
    let renewing = RedrivePlan { new_id: true, ..plan(".body.order = 2") };
    let RedriveDecision::Send(sent) = renewing.decide(&record).unwrap() else { panic!("sent") };
    assert_eq!(sent.old_message_id.as_deref(), Some(ID));
    assert_ne!(sent.message_id, ID);
    let redeliver = sent.message.content().attributes[REDELIVER].text().unwrap().to_owned();
    assert_eq!(redeliver, format!(r#"{{"message_id":"{}","redrive_generation":2}}"#, sent.message_id));
    assert_eq!(renewing.decide(&record).unwrap(), RedriveDecision::Send(sent), "derived, not random");
    let refused = plan(".body = 1").decide(&plain_record("4711", 0)).unwrap();
    assert!(matches!(refused, RedriveDecision::Stays(StayReason::EditRefused(_))), "{refused:?}");
}

/// A message that SQS itself moved to a deployment's DLQ.
#[test]
fn an_untouched_plain_message_goes_back_only_if_plain_is_on() {
    let raw = DeadLetterRecord::new(received_message("no envelope", Attributes::new(), 1));
    let refused = plain_plan().decide(&raw).unwrap();
    assert!(matches!(refused, RedriveDecision::Stays(StayReason::NotAMessage(_))), "{refused:?}");
    let schema = MessageSchema::default().with_plain(PlainMessages::default());
    let content =
        expect_send(RedrivePlan { schema, from_deployment: true, ..plain_plan() }.decide(&raw).unwrap());
    assert_eq!(content.body, "no envelope");
    assert!(content.attributes[REDELIVER].text().unwrap().contains(r#""redrive_generation":1"#));
}

/// Returns a copy of the dead letter: SQS assigns each copy a separate id and handle, and the annotator a separate
/// timestamp.
fn later_copy(record: &DeadLetterRecord, number: u32) -> DeadLetterRecord {
    let ReceivedMessage { body, mut attributes, .. } = record.message.clone();
    if let Some(ours) = attributes.get("DeadLetter").and_then(|ours| ours.text()) {
        let later = ours.replace("17:20:00.000000Z", &format!("17:20:00.{number:06}Z"));
        assert!(later != ours || number == 0, "{ours}");
        attributes.insert("DeadLetter".to_owned(), Attribute::string(later));
    }
    DeadLetterRecord::new(received_message(&body, attributes, number))
}

/// Returns a final record without an id: it was found invalid under an earlier schema.
fn record_without_id(body: &str, sqs_message_id: &str) -> DeadLetterRecord {
    let mut annotation = annotation();
    annotation.record.sqs_message_id = sqs_message_id.to_owned();
    let attributes = annotate_attributes(&Attributes::new(), body.len(), &annotation);
    DeadLetterRecord::new(received_message(body, attributes, 1))
}

/// With two ids, a target that deduplicates by id would process the message twice. The second copy results from a send
/// without a response, or from an interrupted run.
#[test]
fn all_copies_of_a_plain_dead_letter_go_back_under_one_id() {
    let schema = || MessageSchema::default().with_plain(PlainMessages::default());
    let first = "0c5b415a-8a55-4c8e-9a3f-2b1d7e5f9a01";
    for record in [
        plain_record("no envelope", 0),
        plain_record(r#"{"order":1.50}"#, 3),
        plain_record(r#"{"order":1.50}"#, 9),
        record_without_id("no envelope", first),
        record_without_id(r#"{"order":1.50}"#, first),
        record_without_id(r#"{"specversion":"1.0","source":"/shop","id":"e1"}"#, first),
        record_without_id(r#"{"metadata":{"message_id":"no UUID"},"data":{}}"#, first),
    ] {
        for new_id in [false, true] {
            let edit =
                record.message.body.starts_with('{').then(|| BodyEdit::new(".body.order = 2").unwrap());
            if new_id && edit.is_none() {
                continue;
            }
            let edit = edit.filter(|_| new_id);
            let plan = RedrivePlan { schema: schema(), new_id, edit, ..plain_plan() };
            let all: Vec<_> =
                (0..4).map(|number| plan.decide(&later_copy(&record, number)).unwrap()).collect();
            let RedriveDecision::Send(sent) = &all[0] else {
                assert!(record.message.body.contains("no UUID") && !new_id, "{:?}", all[0]);
                continue;
            };
            assert_eq!(sent.old_message_id.is_some(), new_id);
            assert!(all.iter().all(|verdict| *verdict == all[0]), "{}: {all:#?}", record.message.body);
        }
    }
    let nameless = record_without_id(r#"{"metadata":{},"data":{}}"#, first);
    let edit = Some(BodyEdit::new(".body.metadata.message_id = .message_id").unwrap());
    let plan = RedrivePlan { edit, ..plain_plan() };
    for number in 0..4 {
        let verdict = plan.decide(&later_copy(&nameless, number)).unwrap();
        let RedriveDecision::Send(sent) = verdict else { panic!("{verdict:?}") };
        assert_eq!(sent.message_id, first, "copy {number}");
    }
    let RedriveDecision::Send(sent) =
        RedrivePlan { schema: schema(), ..plain_plan() }.decide(&record_without_id("x", first)).unwrap()
    else {
        panic!("it goes back")
    };
    assert_eq!(sent.message_id, first, "the id that the target may have been called with");
}
