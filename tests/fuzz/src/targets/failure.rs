//! The attributes of a hand-off, a hop and a verdict: SQS accepts them, and no producer attribute is lost.

use arbitrary::{Result, Unstructured};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{
    AttachedDocument, Classification, Delivery, DlqReturn, FAILURE, FAILURE_BYTES_MAX, Failure, FailureClass,
    FailureDocument, HandOff, HandedOffFailure, Hop, LastError, Stage, Verdict, VerdictDetails,
};
use redeliver_core::json::forward_compatible::UnknownMembers;
use redeliver_core::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX};
use redeliver_core::message::origin::Origin;
use redeliver_core::message::{Attribute, Attributes, Content, attributes_size};
use redeliver_core::truncate;
use redeliver_embedded::check_content;

use crate::generators::{self, ProducerMessage};
use crate::messages::{fixed_now, is_sendable, open_arrival, open_with_trace_header, restore_folded};

pub(super) fn check(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    if let (Ok(sent), Ok(verdict)) =
        (generators::arbitrary_message(&mut bytes), arbitrary_verdict(&mut bytes))
    {
        let Some(HandedOffFailure { hand_off, .. }) =
            FailureDocument::Verdict(verdict.clone()).into_hand_off()
        else {
            return;
        };
        check_hand_off(&sent, &hand_off);
        check_verdict(&sent, &verdict);
        check_hop(&sent, &Hop { hand_off, due_at: fixed_now() });
    }
}

fn arbitrary_verdict(bytes: &mut Unstructured<'_>) -> Result<Verdict> {
    let error = LastError::new(&generators::arbitrary_text(bytes)?, &generators::arbitrary_text(bytes)?);
    let error =
        error.with_function(Some(&*generators::arbitrary_text(bytes)?).filter(|name| !name.is_empty()));
    let explanation = generators::arbitrary_text(bytes)?;
    let kind = *bytes.choose(&[
        FailureClass::Transient,
        FailureClass::Permanent,
        FailureClass::Snooze,
        FailureClass::NotStarted,
    ])?;
    let classification = Some(Classification { kind: kind.into(), retry_after_seconds: bytes.arbitrary()? });
    let came_back = if bytes.arbitrary()? {
        Some(DlqReturn { last_attempt: None, generation_before: bytes.arbitrary()? })
    } else {
        None
    };
    let delivery = Delivery {
        last_attempt: None,
        last_attempt_logs: None,
        failed_at: fixed_now(),
        source_message_id: "0191f3a2-7b1c-7d3e-8f00-0123456789ab".to_owned(),
        source_queue_arn: "arn:aws:sqs:eu-central-1:000000000000:source".to_owned(),
        sent_at: fixed_now(),
        came_back,
        origin: *bytes.choose(&[Origin::Producer, Origin::Unknown])?,
    };
    let attempts = bytes.arbitrary()?;
    let failure = Failure { error, classification, delivery, attempts, unknown: UnknownMembers::default() };
    let code = (*bytes.choose(DeadLetterReason::ALL)?).into();
    Ok(Verdict {
        code,
        case: Some(VerdictDetails { stage: Some(Stage::MessageProcessor.into()), explanation, failure }),
    })
}

fn check_hand_off(sent: &ProducerMessage, hand_off: &HandOff) {
    let placed = hand_off.attach_to(&sent.attributes, sent.body_bytes, TRACE);
    // A hand-off with folded attributes is a hop that is never due.
    let again = check_placement(sent, &placed)
        .into_hand_off()
        .map(|handed_off| handed_off.hand_off)
        .expect("a hand-off");
    assert_eq!(again.classification, hand_off.classification);
    assert_eq!(again.delivery.came_back, hand_off.delivery.came_back);
    if has_room(sent) {
        assert_eq!(again.delivery, hand_off.delivery);
    }
}

fn check_hop(sent: &ProducerMessage, hop: &Hop) {
    let placed = hop.attach_to(&sent.attributes, sent.body_bytes, TRACE);
    let FailureDocument::Hop(again) = check_placement(sent, &placed) else { panic!("{placed:?}") };
    assert_eq!((again.due_at, &again.hand_off.classification), (hop.due_at, &hop.hand_off.classification));
}

fn check_verdict(sent: &ProducerMessage, verdict: &Verdict) {
    let placed = verdict.attach_to(&sent.attributes, sent.body_bytes, TRACE);
    let FailureDocument::Verdict(again) = check_placement(sent, &placed) else { panic!("{placed:?}") };
    assert_eq!(again.code, verdict.code);
    let error = |verdict: &Verdict| verdict.case.as_ref().map(|case| case.failure.error.error_type.clone());
    let cut =
        error(verdict).map(|error_type| truncate::clean_text(&error_type, truncate::ERROR_TYPE_BYTES_MAX));
    assert_eq!(error(&again).unwrap_or_default(), cut.unwrap_or_default());
}

const TRACE: Option<&str> = Some("Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1");

/// Returns true if there is certainly enough room for the document.
fn has_room(sent: &ProducerMessage) -> bool {
    attributes_size(&sent.attributes) * 3 + sent.body_bytes + 10_000 < MESSAGE_BYTES_MAX
        && sent.attributes.len() < ATTRIBUTES_MAX
}

/// Checks where a document is placed, and returns it as its reader sees it.
fn check_placement(sent: &ProducerMessage, placed: &AttachedDocument) -> FailureDocument {
    let AttachedDocument { attributes, trace_header } = placed;
    if attributes.contains_key(FAILURE) {
        assert_eq!(trace_header.as_deref(), TRACE);
        check_restored_attributes(sent, attributes);
        return check_written_document(sent, attributes);
    }
    assert!(!has_room(sent), "there was room: {attributes:?}");
    assert_eq!(*attributes, sent.attributes, "a producer's attribute is lost");
    let trace_header = trace_header.clone();
    let content = Content { body: "-".to_owned(), trace_header: trace_header.clone(), ..Content::default() };
    assert!(check_content(&content).is_ok(), "SQS would refuse {trace_header:?}");
    let opened = open_with_trace_header(Attributes::new(), trace_header, fixed_now());
    assert_eq!(opened.record.trace_header.as_deref(), TRACE);
    opened.document().cloned().expect("our own document is readable")
}

fn check_restored_attributes(sent: &ProducerMessage, attributes: &Attributes) {
    let mut beside = attributes.clone();
    let document = beside.remove(FAILURE).and_then(|attribute| attribute.text().map(str::to_owned));
    let restored = restore_folded(&beside, &document.unwrap_or_default());
    assert_eq!(restored.as_ref(), Some(&sent.attributes), "not restored exactly");
}

fn check_written_document(sent: &ProducerMessage, attributes: &Attributes) -> FailureDocument {
    assert!(is_sendable(attributes), "SQS would refuse {attributes:?}");
    assert!(sent.body_bytes + attributes_size(attributes) <= MESSAGE_BYTES_MAX, "too large");
    let text = attributes.get(FAILURE).and_then(Attribute::text).expect("our own document is readable");
    let mut unfolded: serde_json::Value = serde_json::from_str(text).expect("our own document is readable");
    unfolded.as_object_mut().map(|members| members.remove("folded_attributes"));
    let length = unfolded.to_string().len();
    assert!(length <= FAILURE_BYTES_MAX, "{length} bytes before folding");
    open_arrival(attributes.clone(), fixed_now()).document().cloned().expect("our own document is readable")
}
