mod full_messages;

use std::time::Duration;

use proptest::prelude::*;

use super::wire::Wire;
use super::*;
use crate::arrival::{Arrival, ProducerAttributes, split_producer_attributes};
use crate::handler::ErrorType;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::message::origin::Origin;
use crate::message::{Attribute, Attributes, Content, OutgoingMessage, ReceivedMessage, attributes_size};
use crate::testing::{any_text, at, delivery, received_message, sent_message};

fn hand_off() -> HandOff {
    HandOff::from_handler_error(&HandlerError::transient("HttpStatus.503", "HTTP 503"), delivery())
}

fn hop() -> Hop {
    Hop { hand_off: hand_off(), due_at: at(7205) }
}

fn verdict() -> Verdict {
    verdict_on(hand_off().into())
}

fn verdict_on(failure: Failure) -> Verdict {
    let explanation = "Max retry attempts 5 exceeded".to_owned();
    let case = VerdictDetails { stage: Some(Stage::FailedMessageProcessor.into()), explanation, failure };
    Verdict { code: DeadLetterReason::RetryAttemptExceeded.into(), case: Some(case) }
}

/// Parses a `Failure` attribute, as on a message in the intermediate DLQ.
fn read_failure(text: &str) -> Option<FailureDocument> {
    let attributes = Attributes::from([(FAILURE.to_owned(), Attribute::string(text))]);
    Arrival::from_record(ReceivedMessage { attributes, ..received_message(None) }, at(9)).document().cloned()
}

/// Returns attributes `a0`, `a1`…, each with a one-byte value.
fn producer_attributes(count: usize) -> Attributes {
    (0..count).map(|index| (format!("a{index}"), Attribute::string("x"))).collect()
}

fn failure_text(attributes: &Attributes) -> &str {
    attributes[FAILURE].text().unwrap()
}

#[test]
fn each_document_round_trips_through_its_exact_json() {
    let delivered = concat!(
        r#"{"type":"HttpStatus.503","details":"HTTP 503","kind":"transient","failed_at":"2026-07-25T17:20:05.000000Z","#,
        r#""source_message_id":"m","source_queue_arn":"arn:aws:sqs:eu-central-1:000000000000:source","#,
        r#""first_sent_time":"2026-07-25T17:20:00.000000Z""#
    );
    let attributes = hand_off().attach_to(&producer_attributes(1), 100, None).attributes;
    assert_eq!(attributes.len(), 2);
    assert_eq!(attributes[FAILURE].data_type, "String");
    assert_eq!(failure_text(&attributes), format!("{delivered}}}"));
    assert_eq!(read_failure(failure_text(&attributes)), Some(FailureDocument::HandOff(hand_off())));

    let attributes = hop().attach_to(&producer_attributes(1), 100, None).attributes;
    assert_eq!(failure_text(&attributes), format!(r#"{delivered},"due_at":"2026-07-25T19:20:05.000000Z"}}"#));
    assert_eq!(read_failure(failure_text(&attributes)), Some(FailureDocument::Hop(hop())));

    let attributes = verdict().attach_to(&producer_attributes(1), 100, None).attributes;
    let given_up = concat!(
        r#""verdict":"RETRY_ATTEMPT_EXCEEDED","#,
        r#""stage":"failed-message-processor","explanation":"Max retry attempts 5 exceeded"}"#
    );
    assert_eq!(failure_text(&attributes), format!("{delivered},{given_up}"));
    assert_eq!(read_failure(failure_text(&attributes)), Some(FailureDocument::Verdict(verdict())));
}

#[test]
fn each_kind_of_handler_error_is_classified() {
    let classify = |error: HandlerError| {
        let classification = HandOff::from_handler_error(&error, delivery()).classification;
        (classification.known_class().as_str(), classification.retry_after_seconds)
    };
    let transient_error = || HandlerError::transient("T", "d");
    assert_eq!(classify(transient_error()), ("transient", None));
    assert_eq!(classify(transient_error().retry_after(Duration::from_secs(30))), ("transient", Some(30)));
    assert_eq!(classify(HandlerError::permanent("T", "d")), ("permanent", None));
    assert_eq!(classify(HandlerError::snooze("T", "d", Duration::ZERO)), ("snooze", Some(0)));
    assert_eq!(classify(HandlerError::unavailable("T", "d")), ("transient", None));
    let back_in = Duration::from_secs(30);
    assert_eq!(classify(HandlerError::unavailable("T", "d").retry_after(back_in)), ("transient", Some(30)));
    assert_eq!(
        HandOff::for_unstarted_call(delivery()).classification,
        Classification::without_delay(FailureClass::NotStarted)
    );
}

#[test]
fn a_requested_delay_is_rounded_up_to_seconds_and_not_capped() {
    let retry_after_seconds =
        |delay| Classification::from_failure_kind(FailureKind::TransientAfter(delay)).retry_after_seconds;
    assert_eq!(retry_after_seconds(Duration::from_millis(1)), Some(1));
    assert_eq!(retry_after_seconds(Duration::from_millis(2000)), Some(2));
    assert_eq!(retry_after_seconds(Duration::MAX), Some(u64::MAX));
}

#[test]
fn a_targets_error_type_is_truncated_and_made_legal() {
    let error = HandlerError::transient(ErrorType::FromTarget(format!("\0{}", "é".repeat(200))), "");
    let LastError { error_type, .. } = HandOff::from_handler_error(&error, delivery()).error;
    assert!((126..=128).contains(&error_type.len()));
    assert!(error_type.starts_with("\u{FFFD}é") && error_type.ends_with('…'));
}

#[test]
fn the_failed_functions_version_is_truncated_and_never_replaced() {
    let error = HandlerError {
        function: Some(format!("{}:7", "f".repeat(200))),
        ..HandlerError::transient("T", "d")
    };
    let HandOff { error, .. } = HandOff::from_handler_error(&error, delivery());
    let cut = format!("{}…", "f".repeat(125));
    assert_eq!(error.function.as_deref(), Some(&*cut));
    let hand_off = HandOff { error: error.with_function(Some("later")), ..hand_off() };
    let attributes = hand_off.attach_to(&producer_attributes(0), 1, None).attributes;
    assert!(failure_text(&attributes).contains(&format!(r#","function":"{cut}","kind":"#)), "{attributes:?}");
    assert_eq!(read_failure(failure_text(&attributes)), Some(FailureDocument::HandOff(hand_off)));
    assert_eq!(LastError::default().with_function(Some("orders:7")).function.as_deref(), Some("orders:7"));
}

#[test]
fn a_message_back_from_the_final_dlq_starts_a_new_generation() {
    let hand_off_text = |generation_before| {
        let delivery =
            Delivery { came_back: Some(DlqReturn { last_attempt: None, generation_before }), ..delivery() };
        let hand_off = HandOff { delivery, ..hand_off() };
        let attributes = hand_off.attach_to(&producer_attributes(0), 1, None).attributes;
        assert_eq!(read_failure(failure_text(&attributes)), Some(FailureDocument::HandOff(hand_off)));
        failure_text(&attributes).to_owned()
    };
    assert!(hand_off_text(None).ends_with(r#","new_generation":true}"#));
    assert!(hand_off_text(Some(2)).ends_with(r#","new_generation":true,"generation_before":2}"#));
}

#[test]
fn only_a_message_back_from_the_final_dlq_has_a_previous_generation() {
    for without in [r#"{"generation_before":2}"#, r#"{"new_generation":false,"generation_before":2}"#] {
        let Some(FailureDocument::HandOff(hand_off)) = read_failure(without) else { panic!("a hand-off") };
        assert_eq!(hand_off.delivery.came_back, None, "{without}");
    }
}

#[test]
fn foreign_json_is_not_read_as_a_failure_document() {
    for other in [
        "",
        "[]",
        "null",
        "text",
        r#"{"type":5}"#,
        r#"{"kind":5}"#,
        r#"{"verdict":"any text"}"#,
        r#"{"verdict":""}"#,
        r#"{"type":"A","type":"B"}"#,
    ] {
        assert_eq!(read_failure(other), None, "{other}");
    }
}

#[test]
fn missing_hand_off_members_are_taken_from_the_record() {
    let Some(FailureDocument::HandOff(hand_off)) = read_failure(r#"{"type":"T"}"#) else {
        panic!("a hand-off")
    };
    assert_eq!(hand_off.classification, Classification::without_delay(FailureClass::Transient));
    let expected = Delivery {
        last_attempt: None,
        last_attempt_logs: None,
        failed_at: at(9),
        source_message_id: "n".to_owned(),
        source_queue_arn: received_message(None).queue_arn,
        sent_at: at(-60),
        came_back: None,
        origin: Origin::Unknown,
    };
    assert_eq!(hand_off.delivery, expected);
    let Some(FailureDocument::HandOff(odd)) =
        read_failure(r#"{"failed_at":"yesterday","due_at":"tomorrow"}"#)
    else {
        panic!("an invalid due time makes no hop")
    };
    assert_eq!(odd.delivery, expected);
    for no_span in ["7", "{}", "null", r#""""#, r#""\ud800""#] {
        let text = format!(r#"{{"type":"T","last_attempt_traceparent":{no_span}}}"#);
        let Some(FailureDocument::HandOff(odd)) = read_failure(&text) else { panic!("{no_span}") };
        assert_eq!(odd.delivery, expected);
    }
}

#[test]
fn unknown_values_from_a_later_version_are_preserved() {
    let json = r#"{"type":"T","kind":"parked","retry_after_seconds":7}"#;
    let Some(FailureDocument::HandOff(parked)) = read_failure(json) else { panic!("a hand-off") };
    assert_eq!(
        (parked.classification.known_class(), parked.classification.retry_after_seconds),
        (FailureClass::Transient, Some(7))
    );
    let hop =
        Hop { hand_off: parked, due_at: at(100) }.attach_to(&producer_attributes(0), 1, None).attributes;
    assert!(failure_text(&hop).contains(r#""kind":"parked","retry_after_seconds":7"#), "{hop:?}");

    let json = r#"{"verdict":"TARGET_GONE","stage":"circuit-breaker"}"#;
    let Some(FailureDocument::Verdict(verdict)) = read_failure(json) else { panic!("a verdict") };
    assert_eq!(verdict.code, ReasonCode::Unknown("TARGET_GONE".to_owned()));
    assert_eq!(verdict.case.as_ref().unwrap().stage.as_ref().unwrap().as_str(), "circuit-breaker");
    let attributes = verdict.attach_to(&producer_attributes(0), 1, None).attributes;
    assert_eq!(read_failure(failure_text(&attributes)), Some(FailureDocument::Verdict(verdict)));
}

#[test]
fn an_unknown_kind_is_truncated_to_64_bytes() {
    let parse_kind = |bytes: usize| {
        let json = format!(r#"{{"kind":"{}"}}"#, "k".repeat(bytes));
        let Some(FailureDocument::HandOff(hand_off)) = read_failure(&json) else { panic!("a hand-off") };
        hand_off.classification.kind.as_str().to_owned()
    };
    assert_eq!((parse_kind(64), parse_kind(65)), ("k".repeat(64), format!("{}…", "k".repeat(61))));
}

/// A document of unknown origin may lack members that this version always writes.
#[test]
fn a_verdict_without_a_stage_keeps_its_reason() {
    let text_without_stage = concat!(
        r#"{"type":"T","details":"d","failed_at":"2026-07-25T17:20:05.000000Z","source_message_id":"m","source_queue_arn":"q","#,
        r#""first_sent_time":"2026-07-25T17:20:00.000000Z","attempts":3,"verdict":"MESSAGE_EXPIRED","explanation":"too late","since":1}"#
    );
    let Some(FailureDocument::Verdict(verdict)) = read_failure(text_without_stage) else {
        panic!("a verdict")
    };
    let case = verdict.case.as_ref().unwrap();
    assert_eq!((case.explanation.as_str(), case.failure.attempts), ("too late", Some(3)));
    assert_eq!(case.failure.error, LastError::new("T", "d"));
    assert_eq!(
        failure_text(&verdict.attach_to(&producer_attributes(0), 1, None).attributes),
        text_without_stage
    );
}

/// Unknown members are preserved from the hand-off through several hops to the verdict.
#[test]
fn members_from_a_later_version_are_kept_unchanged() {
    let members = r#""since":"2026-07-25","deep":{"n":1.50e400,"$serde_json::private::Number":"1"},"\u0061b":[ "\ud800" ]"#;
    let written = failure_text(&hand_off().attach_to(&producer_attributes(0), 1, None).attributes).replacen(
        '{',
        &format!("{{{members},"),
        1,
    );
    let Some(FailureDocument::HandOff(hand_off)) = read_failure(&written) else {
        panic!("a hand-off: {written}")
    };
    let kept = members.replace(r"\u0061b", "ab");
    assert_eq!(hand_off.error, self::hand_off().error);
    let first = Hop { hand_off, due_at: at(5000) }.attach_to(&producer_attributes(10), 1, None).attributes;
    assert!(failure_text(&first).contains(&kept), "{first:?}");
    let Some(FailureDocument::Hop(hop)) = read_failure(failure_text(&first)) else { panic!("a hop") };
    let second = hop.attach_to(&producer_attributes(0), 1, None).attributes;
    assert!(failure_text(&second).contains(&kept), "{second:?}");
    let verdict = verdict_on(hop.hand_off.into()).attach_to(&producer_attributes(0), 1, None).attributes;
    assert!(failure_text(&verdict).contains(&kept), "{verdict:?}");
}

#[test]
fn members_from_a_later_version_survive_a_second_decision() {
    let Some(FailureDocument::HandOff(kept)) = read_failure(r#"{"since":[1.50],"kind":"held"}"#) else {
        panic!("a hand-off")
    };
    let HandedOffFailure { hand_off: parsed, due_at } =
        FailureDocument::Verdict(verdict_on(kept.clone().into())).into_hand_off().unwrap();
    assert_eq!((&parsed, due_at), (&kept, None), "a verdict whose message was moved to the intermediate DLQ");
    let invalid = Failure::from(parsed)
        .into_invalid_message_failure(DeadLetterReason::InvalidMessageFormat, &"no object");
    let error = LastError::new("INVALID_MESSAGE_FORMAT", "no object");
    assert_eq!(invalid, Failure { error, ..kept.into() });
}

/// Unknown members may be part of the message's state, whereas the details are only for people.
#[test]
fn details_are_cut_before_members_from_a_later_version() {
    let since = r#""since":"2026-07-25T17:00:00Z""#;
    let written = format!(r#"{{"type":"T","details":"{}","kind":"held",{since}}}"#, "d".repeat(2000));
    let Some(FailureDocument::HandOff(hand_off)) = read_failure(&written) else { panic!("a hand-off") };
    let kept = r#""kind":"held","failed_at":"2026-07-25T17:20:09.000000Z","source_message_id":"n","#;
    let kept = format!(
        r#"{kept}"source_queue_arn":"{}","first_sent_time":"2026-07-25T17:19:00.000000Z",{since}}}"#,
        received_message(None).queue_arn
    );
    let attributes = hand_off.attach_to(&producer_attributes(0), 1, None).attributes;
    let details = "d".repeat(FAILURE_BYTES_MAX - kept.len() - r#"{"type":"T","details":"…","#.len());
    assert_eq!(failure_text(&attributes), format!(r#"{{"type":"T","details":"{details}…",{kept}"#));

    let bare = format!(r#"{{"type":"T",{kept}"#);
    let left = bare.len() + FAILURE.len() + "String".len();
    let attributes = hand_off.attach_to(&producer_attributes(0), MESSAGE_BYTES_MAX - left, None).attributes;
    assert_eq!(failure_text(&attributes), bare, "a later version's members are dropped last");
    let attributes =
        hand_off.attach_to(&producer_attributes(0), MESSAGE_BYTES_MAX - left + 1, None).attributes;
    let details = "d".repeat(since.len() - r#""details":"…","#.len());
    let known =
        bare.replace(&format!(",{since}"), "").replace("\"T\"", &format!(r#""T","details":"{details}…""#));
    assert_eq!(failure_text(&attributes), known);
}

#[test]
fn unknown_members_that_do_not_fit_are_dropped_before_the_details() {
    let span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let written = format!(
        r#"{{"more":"{}","details":"{}","last_attempt_traceparent":"{span}"}}"#,
        "m".repeat(900),
        "d".repeat(400)
    );
    let Some(FailureDocument::HandOff(hand_off)) = read_failure(&written) else { panic!("a hand-off") };
    assert_eq!(hand_off.delivery.last_attempt.map(|span| span.traceparent()).as_deref(), Some(span));
    let attributes = hand_off.attach_to(&producer_attributes(0), 1, None).attributes;
    assert!(failure_text(&attributes).starts_with(&format!(r#"{{"details":"{}","kind":"#, "d".repeat(400))));
    assert!(!failure_text(&attributes).contains("more"), "{attributes:?}");
    assert!(
        !failure_text(&attributes).contains("last_attempt"),
        "the link to the last attempt is dropped, too: {attributes:?}"
    );
}

/// An escape sequence in a name can hide an illegal character, which re-encoding the name would reveal.
#[test]
fn an_unknown_member_name_that_sqs_would_refuse_is_dropped() {
    let Some(FailureDocument::HandOff(hand_off)) = read_failure(r#"{"a\ufffe":1,"b":2}"#) else {
        panic!("a hand-off")
    };
    let attributes = hand_off.attach_to(&producer_attributes(0), 1, None).attributes;
    assert!(failure_text(&attributes).ends_with(r#","b":2}"#), "{attributes:?}");
}

fn hand_off_with_details(details: &str) -> HandOff {
    let HandOff { error, .. } = hand_off();
    HandOff { error: LastError { details: details.to_owned(), ..error }, ..hand_off() }
}

#[test]
fn a_failure_document_is_limited_to_1_kib() {
    let attributes =
        hand_off_with_details(&"d".repeat(5000)).attach_to(&producer_attributes(0), 1, None).attributes;
    assert_eq!(failure_text(&attributes).len(), 1024);
    let Some(FailureDocument::HandOff(read)) = read_failure(failure_text(&attributes)) else {
        panic!("a hand-off")
    };
    assert!(read.error.details.ends_with("ddd…"));
    assert_eq!(hand_off_with_details(&read.error.details), read);
}

#[test]
fn texts_that_double_in_json_leave_room_for_the_other_members() {
    let quotes = "\"".repeat(500);
    let source_queue_arn = format!("arn:aws:sqs:ap-southeast-1:123456789012:{}", "q".repeat(80));
    let source_message_id = "0191f3a2-7b1c-7d3e-8f00-0123456789ab".to_owned();
    let delivery = Delivery { source_queue_arn, source_message_id, ..delivery() };
    let error = LastError::new(&quotes, &quotes);
    let mut long = verdict_on(HandOff { error, delivery: delivery.clone(), ..hand_off() }.into());
    long.case.as_mut().unwrap().explanation = quotes;
    let attributes = long.attach_to(&producer_attributes(1), 100, None).attributes;
    let Some(FailureDocument::Verdict(Verdict { case: Some(parsed), .. })) =
        read_failure(failure_text(&attributes))
    else {
        panic!("a verdict")
    };
    assert_eq!(parsed.failure.delivery, delivery);
    assert_eq!(parsed.failure.error.error_type, format!("{}…", "\"".repeat(125)));
    // Each text consists of 86 quotes and an ellipsis of 3 bytes.
    assert_eq!((parsed.failure.error.details.len(), parsed.explanation.len()), (89, 89));
    assert_eq!(failure_text(&attributes).len(), 1024);
}

#[test]
fn illegal_characters_in_short_details_are_replaced() {
    let attributes = hand_off_with_details("a\u{1}b").attach_to(&producer_attributes(0), 1, None).attributes;
    assert_eq!(
        read_failure(failure_text(&attributes)),
        Some(FailureDocument::HandOff(hand_off_with_details("a\u{FFFD}b")))
    );
}

#[test]
fn a_verdict_folds_the_smallest_of_ten_attributes() {
    let mut attributes = producer_attributes(9);
    attributes.insert("z".to_owned(), Attribute::string("x"));
    let beside = verdict().attach_to(&attributes, 100, None).attributes;
    assert_eq!(beside.len(), 10);
    assert!(!beside.contains_key("z"));
    assert_eq!(split_producer_attributes(beside), ProducerAttributes { attributes, came_back: None });
}

#[test]
fn an_attribute_that_sqs_might_refuse_is_not_folded() {
    let mut attributes = producer_attributes(9);
    attributes.insert("ü".to_owned(), Attribute::string("x"));
    let folded = hop().attach_to(&attributes, 100, None).attributes;
    assert!(folded.contains_key("ü") && !folded.contains_key("a0"), "{folded:?}");
    let open: Attributes = (0..10).map(|n| (format!("ü{n}"), Attribute::string("x"))).collect();
    assert_eq!(hop().attach_to(&open, 100, None).attributes, open, "the document is in the trace header");
    assert_eq!(verdict().attach_to(&open, 100, None).attributes, open);
}

#[test]
fn a_failure_document_with_an_illegal_character_is_not_ours() {
    let texts = ["failed_at", "source_message_id", "source_queue_arn", "first_sent_time", "due_at"];
    for name in texts {
        let read_failure = |text: &str| read_failure(&format!(r#"{{"{name}":"{text}"}}"#));
        assert!(read_failure("m").is_some(), "{name}");
        for escape in ["\\ufffe", "\\u0000", "m\\uffff"] {
            assert_eq!(read_failure(escape), None, "{name} {escape}");
        }
    }
}

proptest! {
    #[test]
    fn a_verdict_always_fits_and_loses_no_producer_attribute(
        (producer, body_bytes) in sent_message(),
        error_type in any_text(),
        details in any_text(),
        explanation in any_text(),
    ) {
        let error = LastError { error_type, details, function: None };
        let mut verdict = verdict_on(HandOff { error, ..hand_off() }.into());
        verdict.case.as_mut().unwrap().explanation = explanation;

        let attributes = verdict.attach_to(&producer, body_bytes, None).attributes;

        prop_assert!(body_bytes + attributes_size(&attributes) <= MESSAGE_BYTES_MAX);
        let content = Content { body: "-".to_owned(), attributes: attributes.clone(), ..Content::default() };
        prop_assert_eq!(OutgoingMessage::new(content).err(), None);
        match attributes.get(FAILURE) {
            Some(attribute) => {
                let Some(FailureDocument::Verdict(read)) = read_failure(attribute.text().unwrap()) else { panic!("a verdict") };
                prop_assert_eq!(read.code, verdict.code);
                let mut wire = Wire::from_json(attribute.text().unwrap()).unwrap();
                wire.folded_attributes = None;
                prop_assert!(wire.to_json().len() <= FAILURE_BYTES_MAX);
                prop_assert_eq!(split_producer_attributes(attributes.clone()), ProducerAttributes { came_back: None, ..split_producer_attributes(producer) });
            }
            None => prop_assert_eq!(attributes, producer),
        }
    }
}

#[test]
fn a_held_message_gets_the_reason_and_delay_from_its_hold() {
    let outage = Outage { since: at(-600), first_failures: 12 };
    let hold = |reason| Hold { reason, outage, delay: Duration::from_millis(7001) };
    for (reason, error_type, details) in [
        (
            HoldReason::Down,
            "CircuitOpen",
            "not called: the target has been down since 2026-07-25T17:10:00.000000Z",
        ),
        (
            HoldReason::RateLimited,
            "RateLimited",
            "not called: the target has refused calls since 2026-07-25T17:10:00.000000Z",
        ),
    ] {
        let held = HandOff::for_hold(hold(reason), delivery());
        assert_eq!((&*held.error.error_type, &*held.error.details), (error_type, details));
        assert_eq!(
            (held.classification.known_class(), held.classification.retry_after_seconds),
            (FailureClass::Held, Some(8)),
            "rounded up"
        );
    }
    let error =
        HandlerError::transient(ErrorType::HttpStatus(429), "slowly").retry_after(Duration::from_secs(60));
    let probed = HandOff::for_hold_after_call(&error, hold(HoldReason::RateLimited), delivery());
    assert_eq!(probed.error, LastError::from_handler_error(&error));
    assert_eq!(
        (probed.classification.known_class(), probed.classification.retry_after_seconds),
        (FailureClass::Held, Some(8)),
        "the hold's delay"
    );
}
