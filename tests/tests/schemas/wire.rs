//! `schemas/wire/VERSION`: the documents written by each version. This version writes the documents in the folder
//! [`CURRENT`] and reads those of every version.

use redeliver_core::decide::breaker::{Hold, HoldReason, Outage};
use redeliver_core::failure::annotation::{Annotation, Cause, DEAD_LETTER, DeadLetter, annotate_attributes};
use redeliver_core::failure::{
    Delivery, DlqReturn, FAILURE, Failure, FailureClass, FailureDocument, HandOff, HandedOffFailure, Hop,
    LastError, Stage, Verdict, VerdictDetails,
};
use redeliver_core::handler::HandlerError;
use redeliver_core::json::forward_compatible::UnknownMembers;
use redeliver_core::log_location::LogLocation;
use redeliver_core::message::attempt_logs::AttemptLogs;
use redeliver_core::message::metadata::{Holds, Metadata, PastFailure};
use redeliver_core::message::origin::Origin;
use redeliver_core::message::{Attribute, Attributes, Timestamp};

use super::*;

/// The parsed content of a document.
#[derive(Debug, PartialEq)]
enum Meaning {
    Failure(Box<FailureDocument>),
    DeadLetter(Box<DeadLetter>),
    Body(Box<Metadata>),
}

/// The version whose documents this version writes.
const CURRENT: &str = "0.1";

fn wire_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schemas/wire")
}

/// Returns all versions that have documents.
fn list_versions() -> Vec<String> {
    let folders = fs::read_dir(wire_folder()).unwrap().map(|entry| entry.unwrap());
    let folders = folders.filter(|entry| entry.file_type().unwrap().is_dir());
    let versions: Vec<_> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(versions.iter().any(|version| version == CURRENT), "{versions:?}");
    versions
}

fn timestamp_at(seconds: i64) -> Timestamp {
    parse_rfc3339("2026-07-25T17:20:00Z").unwrap() + chrono::TimeDelta::seconds(seconds)
}

fn delivery(came_back: Option<DlqReturn>) -> Delivery {
    Delivery {
        last_attempt: None,
        last_attempt_logs: None,
        failed_at: timestamp_at(5),
        source_message_id: "5fea7756-0ea4-451a-a703-a558b933e274".to_owned(),
        source_queue_arn: "arn:aws:sqs:eu-central-1:000000000000:source".to_owned(),
        sent_at: timestamp_at(0),
        came_back,
        origin: Origin::Unknown,
    }
}

fn attempt_logs() -> Option<AttemptLogs> {
    let stream = "2026/07/25/orders[$LATEST]0123456789abcdef0123456789abcdef".to_owned();
    let location = LogLocation::in_stream(Some("/aws/lambda/orders".to_owned()), Some(stream));
    let location = location.with_request_id(Some("0191f3a2-7b1c-4d3e-8f00-0123456789ab"));
    AttemptLogs::new(location, timestamp_at(1), timestamp_at(4))
}

fn busy_error() -> HandlerError {
    HandlerError::transient("HttpStatus.503", "HTTP 503: \"busy\", é")
}

fn held_hand_off(delivery: Delivery) -> HandOff {
    let delay = std::time::Duration::from_secs(750);
    let outage = Outage { since: timestamp_at(-600), first_failures: 12 };
    HandOff::for_hold(Hold { reason: HoldReason::Down, outage, delay }, delivery)
}

/// Returns a hand-off from a function that had no room for the outage.
fn held_hand_off_without_outage(delivery: Delivery) -> HandOff {
    HandOff { outage: None, ..held_hand_off(delivery) }
}

fn hand_offs() -> Vec<(&'static str, HandOff)> {
    let from_error = |error: HandlerError| HandOff::from_handler_error(&error, delivery(None));
    let minute = std::time::Duration::from_secs(60);
    let reported = Some(DlqReturn { last_attempt: None, generation_before: Some(2) });
    vec![
        ("hand-off-transient", from_error(busy_error())),
        ("hand-off-transient-after", from_error(busy_error().retry_after(minute))),
        ("hand-off-permanent", from_error(HandlerError::permanent("InvalidOrder", "no such order"))),
        ("hand-off-snooze", from_error(HandlerError::snooze("Later", "", minute))),
        ("hand-off-not-started", HandOff::for_unstarted_call(delivery(None))),
        ("hand-off-held", held_hand_off_without_outage(delivery(None))),
        ("hand-off-held-in-an-outage", held_hand_off(delivery(None))),
        ("hand-off-of-a-new-generation", HandOff::from_handler_error(&busy_error(), delivery(reported))),
        (
            "hand-off-of-a-function",
            from_error(HandlerError { function: Some("orders:7".to_owned()), ..busy_error() }),
        ),
        (
            "hand-off-from-a-producer",
            held_hand_off_without_outage(Delivery { origin: Origin::Producer, ..delivery(None) }),
        ),
    ]
}

fn test_verdict(reason: DeadLetterReason, stage: Stage, failure: Failure) -> Verdict {
    let explanation = "why this one is given up".to_owned();
    Verdict {
        code: reason.into(),
        case: Some(VerdictDetails { stage: Some(stage.into()), explanation, failure }),
    }
}

fn all_verdicts() -> Vec<(String, Verdict)> {
    let last = || Failure::from(HandOff::from_handler_error(&busy_error(), delivery(None)));
    let mut all: Vec<_> = DeadLetterReason::ALL
        .iter()
        .copied()
        .map(|reason| {
            let name = reason.as_str().to_lowercase().replace('_', "-");
            (format!("verdict-{name}"), test_verdict(reason, Stage::FailedMessageProcessor, last()))
        })
        .collect();
    let schema = DeadLetterReason::InvalidMessageSchema;
    let found = Failure {
        error: LastError::new(schema.as_str(), "/data: is missing"),
        classification: None,
        delivery: delivery(None),
        attempts: None,
        unknown: UnknownMembers::default(),
    };
    let counted = Failure { attempts: Some(3), ..last() };
    let exceeded = DeadLetterReason::RetryAttemptExceeded;
    let unanswered = Failure::from(HandOff::for_unanswered_receives("SQS moved it", delivery(None)));
    let orchestration = DeadLetterReason::OrchestrationFailed;
    all.extend([
        (
            "verdict-of-an-unanswered-message".to_owned(),
            test_verdict(orchestration, Stage::FailedMessageProcessor, unanswered),
        ),
        ("verdict-of-the-message-processor".to_owned(), test_verdict(schema, Stage::MessageProcessor, found)),
        ("verdict-of-an-invocation".to_owned(), test_verdict(exceeded, Stage::AsyncRetryHandler, counted)),
        ("verdict-only-its-code".to_owned(), Verdict::from_code(DeadLetterReason::MessageTooLarge)),
    ]);
    all
}

fn dead_letter(known: bool) -> DeadLetter {
    DeadLetter {
        last_attempt_traceparent: None,
        last_attempt_logs: None,
        stage: if known { Stage::FailedMessageProcessor } else { Stage::FinalDlqAnnotator }.into(),
        cause: Cause {
            error_type: "HttpStatus.503".to_owned(),
            message: "HTTP 503: \"busy\", é".to_owned(),
            function: None,
            unverified: !known,
        },
        attempts: known.then_some(5),
        redrive_generation: known.then_some(1),
        held_seconds: None,
        redrive_count: None,
        first_sent_time: Some("2026-07-25T17:20:00.000000Z".to_owned()),
        dead_lettered_at: "2026-07-25T18:20:00.000000Z".to_owned(),
        died_at: Some("2026-07-25T17:20:05.000000Z".to_owned()),
        source_queue_arn: Some("arn:aws:sqs:eu-central-1:000000000000:source".to_owned()),
        sqs_message_id: "5fea7756-0ea4-451a-a703-a558b933e274".to_owned(),
        fingerprint: "0123456789abcdef".to_owned(),
        folded_attributes: Default::default(),
    }
}

/// Returns the body of a message that came back from the final DLQ, failed three times, and was then snoozed.
fn body() -> (String, Metadata) {
    let first = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab","tenant":"acme"},"data":{"n":1.50}}"#;
    let policy = r#"{"max_attempts":9,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
    let policy = Policy::from_json(policy).unwrap();
    let [(_, transient), (_, after), _, (_, snooze), _, _, _, (_, again), _, _] =
        hand_offs().try_into().unwrap();
    let mut body = first.to_owned();
    let mut now = timestamp_at(10);
    for hand_off in [again, transient, after, snooze] {
        let failed = failed_message(&body, &hand_off, None);
        let Decision::Resend(resend) = decide(&policy, &failed, now) else { panic!("not re-sent") };
        now += chrono::TimeDelta::seconds(100);
        body = resent_body(resend);
    }
    let past = |attempt, details: &str, name: &str| PastFailure::new(attempt, timestamp_at(5), name, details);
    let busy = |attempt| past(attempt, "HTTP 503: \"busy\", é", "HttpStatus.503");
    let metadata = Metadata {
        last_attempt: None,
        message_id: "0191f3a2-7b1c-7d3e-8f00-0123456789ab".parse().unwrap(),
        message_id_text: "0191f3a2-7b1c-7d3e-8f00-0123456789ab".to_owned(),
        retry_attempt: 3,
        first_sent_time: Some(timestamp_at(0)),
        retry_history: vec![busy(0), busy(1), busy(2), past(3, "", "Later")],
        snooze_count: 1,
        redrive_generation: Some(3),
        holds: Holds::default(),
        redrive_count: 0,
        redrive_count_at_answer: 0,
        expires_at: None,
        max_attempts: None,
    };
    (body, metadata)
}

/// Returns the body of a held message that SQS has moved twice. It was held before, in an outage confirmed by
/// `first_failures` failed first calls.
fn held_body(first_failures: u16) -> (String, Metadata) {
    let before = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab","first_sent_time":"2026-07-25T17:00:00.000000Z","redrive_count":2,"held_since":"2026-07-25T17:10:00.000000Z","held_seconds":600},"data":{}}"#;
    let outage = Some(Outage { since: timestamp_at(-600), first_failures });
    let failed = failed_message(before, &HandOff { outage, ..held_hand_off(delivery(None)) }, None);
    let Decision::Resend(resend) = decide(&Policy::default(), &failed, timestamp_at(10)) else {
        panic!("not re-sent")
    };
    let metadata = Metadata {
        retry_attempt: 0,
        first_sent_time: Some(timestamp_at(-1200)),
        retry_history: Vec::new(),
        snooze_count: 0,
        redrive_generation: None,
        holds: Holds::from_members(Some(timestamp_at(-600)), first_failures, 600 + 750),
        redrive_count: 2,
        redrive_count_at_answer: 0,
        ..body().1
    };
    (resent_body(resend), metadata)
}

fn attribute_text(attributes: &Attributes, name: &str) -> String {
    attributes[name].text().unwrap().to_owned()
}

/// Returns the name, the text and the meaning of each document.
fn all_documents() -> Vec<(String, String, Meaning)> {
    let (none, ten) = (Attributes::new(), ten_attributes());
    let mut all = Vec::new();
    for (name, hand_off) in hand_offs() {
        let written = attribute_text(&hand_off.attach_to(&none, 100, None).attributes, FAILURE);
        all.push((name.to_owned(), written, Meaning::Failure(Box::new(FailureDocument::HandOff(hand_off)))));
    }
    let logged = Delivery { last_attempt_logs: attempt_logs(), ..delivery(None) };
    let logged = HandOff::from_handler_error(&busy_error(), logged);
    let written = attribute_text(&logged.attach_to(&none, 100, None).attributes, FAILURE);
    let name = "hand-off-with-log-lines".to_owned();
    all.push((name, written, Meaning::Failure(Box::new(FailureDocument::HandOff(logged)))));
    let (_, hand_off) = hand_offs().remove(0);
    let hop = Hop { hand_off, due_at: timestamp_at(7205) };
    for (name, producer) in [("hop", &none), ("hop-with-folded-attributes", &ten)] {
        let written = attribute_text(&hop.attach_to(producer, 100, None).attributes, FAILURE);
        all.push((name.to_owned(), written, Meaning::Failure(Box::new(FailureDocument::Hop(hop.clone())))));
    }
    for (name, verdict) in all_verdicts() {
        let written = attribute_text(&verdict.attach_to(&none, 100, None).attributes, FAILURE);
        all.push((name, written, Meaning::Failure(Box::new(FailureDocument::Verdict(verdict)))));
    }
    let (_, verdict) = all_verdicts().remove(0);
    let folded = attribute_text(&verdict.attach_to(&ten, 100, None).attributes, FAILURE);
    let name = "verdict-with-folded-attributes".to_owned();
    all.push((name, folded, Meaning::Failure(Box::new(FailureDocument::Verdict(verdict)))));
    let held = DeadLetter { held_seconds: Some(1350), redrive_count: Some(2), ..dead_letter(true) };
    let mut function_letter = dead_letter(true);
    function_letter.cause.function = Some("orders:7".to_owned());
    let logged = DeadLetter { last_attempt_logs: attempt_logs(), ..dead_letter(true) };
    for (name, written, producer) in [
        ("dead-letter-with-log-lines", logged, &none),
        ("dead-letter-of-a-function", function_letter, &none),
        ("dead-letter", dead_letter(true), &none),
        ("dead-letter-unverified", dead_letter(false), &none),
        ("dead-letter-of-a-held-message", held, &none),
        ("dead-letter-with-folded-attributes", dead_letter(true), &ten),
    ] {
        let reason = DeadLetterReason::RetryAttemptExceeded.into();
        let annotation = Annotation { reason, details: String::new(), record: written.clone() };
        let attributes = annotate_attributes(producer, 100, &annotation);
        let record = DeadLetter::from_attribute(&attributes[DEAD_LETTER]).unwrap();
        let folded = record.folded_attributes;
        assert_eq!(folded.is_empty(), producer.is_empty());
        let record = DeadLetter { folded_attributes: folded, ..written };
        all.push((
            name.to_owned(),
            attribute_text(&attributes, DEAD_LETTER),
            Meaning::DeadLetter(Box::new(record)),
        ));
    }
    let (body, metadata) = body();
    all.push(("body-after-three-retries-and-a-snooze".to_owned(), body, Meaning::Body(Box::new(metadata))));
    for (name, first_failures) in [("body-of-a-held-message", 0), ("body-of-a-message-held-in-an-outage", 12)]
    {
        let (body, metadata) = held_body(first_failures);
        all.push((name.to_owned(), body, Meaning::Body(Box::new(metadata))));
    }
    all
}

fn version_files(version: &str) -> BTreeMap<String, String> {
    let files = fs::read_dir(wire_folder().join(version)).unwrap().map(|entry| entry.unwrap().path());
    let named = files.map(|path| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap().trim_end_matches('\n').to_owned())
    });
    named.collect()
}

/// Run with `cargo test --workspace --test schemas -- --ignored`, for a version that is not released yet.
#[test]
#[ignore = "writes the documents instead of comparing them"]
fn write_wire_documents() {
    let folder = wire_folder().join(CURRENT);
    fs::create_dir_all(&folder).unwrap();
    for (name, text, _) in all_documents() {
        fs::write(folder.join(format!("{name}.json")), text + "\n").unwrap();
    }
}

#[test]
fn this_version_reproduces_its_documents_byte_for_byte() {
    let written: BTreeMap<_, _> = all_documents().into_iter().map(|(name, text, _)| (name, text)).collect();
    let files = version_files(CURRENT);
    assert!(files.keys().eq(written.keys()), "{:?}", files.keys());
    for (name, text) in files {
        assert_eq!(text, written[&name], "{name}");
    }
}

/// A document's name has the same meaning in every version.
#[test]
fn documents_of_every_version_are_valid_and_keep_their_meaning() {
    let meanings: BTreeMap<_, _> =
        all_documents().into_iter().map(|(name, _, meaning)| (name, meaning)).collect();
    for version in list_versions() {
        for (name, text) in version_files(&version) {
            let meaning = meanings.get(&name);
            let meaning = meaning.unwrap_or_else(|| panic!("{version}/{name}: add its meaning here"));
            let attributes = || Attributes::from([(FAILURE.to_owned(), Attribute::string(&text))]);
            let (schema, read) = match meaning {
                Meaning::Failure(_) => {
                    ("failure", Meaning::Failure(Box::new(read_document(attributes()).unwrap())))
                }
                Meaning::DeadLetter(_) => {
                    let record = DeadLetter::from_attribute(&Attribute::string(&text)).unwrap();
                    ("dead-letter", Meaning::DeadLetter(Box::new(record)))
                }
                Meaning::Body(_) => {
                    let metadata = MessageSchema::default().parse_envelope(&text).unwrap().metadata;
                    ("message", Meaning::Body(Box::new(metadata)))
                }
            };
            assert_valid(schema, &text);
            assert_eq!(read, *meaning, "{version}/{name}");
        }
    }
}

/// Adds to each document a member that no version knows.
#[test]
fn unknown_members_from_later_versions_are_ignored() {
    for (name, text) in list_versions().iter().flat_map(|version| version_files(version)) {
        let more = text.replacen('{', r#"{"later":{"n":[1.50e400,null]},"#, 1);
        let failure = |text: &str| {
            let attributes = Attributes::from([(FAILURE.to_owned(), Attribute::string(text))]);
            read_document(attributes).and_then(FailureDocument::into_hand_off).map(
                |HandedOffFailure { hand_off, due_at }| {
                    (hand_off.error, hand_off.classification, hand_off.delivery, due_at)
                },
            )
        };
        let dead_letter = |text: &str| DeadLetter::from_attribute(&Attribute::string(text));
        let metadata =
            |text: &str| MessageSchema::default().parse_envelope(text).ok().map(|envelope| envelope.metadata);
        assert_eq!(failure(&more), failure(&text), "{name}");
        assert_eq!(dead_letter(&more), dead_letter(&text), "{name}");
        assert_eq!(metadata(&more), metadata(&text), "{name}");
    }
}

#[test]
fn failures_of_unknown_kinds_from_later_versions_are_retried() {
    let later =
        version_files(CURRENT)["hand-off-permanent"].replace(r#""kind":"permanent""#, r#""kind":"parked""#);
    let attributes = Attributes::from([(FAILURE.to_owned(), Attribute::string(later))]);
    let Some(FailureDocument::HandOff(hand_off)) = read_document(attributes) else { panic!("a hand-off") };
    assert_eq!(
        (hand_off.classification.known_class(), hand_off.classification.kind.as_str()),
        (FailureClass::Transient, "parked")
    );
}
