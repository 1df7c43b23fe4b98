//! The attributes of a hand-off and of a verdict: SQS takes them, and no producer attribute is lost.

use arbitrary::{Result, Unstructured};
use redeliver_core::attributes::{FoldedAttributes, arrived};
use redeliver_core::failure::{FAILURE, FAILURE_BYTES_MAX, Failure, Kind, Stage};
use redeliver_core::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX};
use redeliver_core::message::{Attributes, attributes_size};
use redeliver_core::reason::DeadLetterReason;

use crate::made::{self, Sent};
use crate::messages::{is_sendable, put_back};

pub(super) fn check(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    if let (Ok(sent), Ok(failure)) = (made::sent(&mut bytes), failure(&mut bytes)) {
        check_hand_off(&sent, &failure);
        check_verdict(&sent, &failure);
    }
}

fn failure(bytes: &mut Unstructured<'_>) -> Result<Failure> {
    let verdict = *bytes.choose(&DeadLetterReason::ALL)?;
    let known = |text: &str| Some(text.to_owned());
    Ok(Failure {
        error_type: made::text(bytes)?,
        details: made::text(bytes)?,
        explanation: made::text(bytes)?,
        kind: Some(*bytes.choose(&[Kind::Transient, Kind::Permanent, Kind::Snooze, Kind::NotStarted])?),
        retry_after_seconds: bytes.arbitrary()?,
        failed_at: known("2026-07-25T17:20:00.000000Z"),
        source_message_id: known("0191f3a2-7b1c-7d3e-8f00-0123456789ab"),
        source_queue_arn: known("arn:aws:sqs:eu-central-1:000000000000:source"),
        first_sent_time: known("2026-07-25T17:20:00.000000Z"),
        new_generation: bytes.arbitrary()?,
        generation_before: bytes.arbitrary()?,
        due_at: bytes.arbitrary::<bool>()?.then(|| "2026-07-25T18:20:00.000000Z".to_owned()),
        attempts: bytes.arbitrary()?,
        verdict: Some(verdict),
        stage: Some(Stage::MessageProcessor),
        folded_attributes: FoldedAttributes::new(),
    })
}

fn check_hand_off(sent: &Sent, failure: &Failure) {
    let Some(attributes) = failure.beside(&sent.attributes, sent.body_bytes) else {
        let full = sent.body_bytes + attributes_size(&sent.attributes) + FAILURE_BYTES_MAX + 13;
        assert!(sent.attributes.len() >= ATTRIBUTES_MAX || full > MESSAGE_BYTES_MAX, "there was room");
        return;
    };
    let again = check_written(sent, &attributes, failure);
    assert!(again.folded_attributes.is_empty());
    assert_eq!(arrived(attributes).failure, Some(again));
}

fn check_verdict(sent: &Sent, failure: &Failure) {
    let attributes = failure.beside_folding(&sent.attributes, sent.body_bytes);
    match failure.beside_folded(&sent.attributes, sent.body_bytes) {
        Some(hop) => assert_eq!(hop, attributes, "a hop and a verdict fold alike"),
        // Then only the bare verdict, or nothing.
        None => assert!(
            attributes.get(FAILURE).and_then(Failure::from_attribute).is_none_or(|bare| bare.kind.is_none())
        ),
    }
    if !attributes.contains_key(FAILURE) {
        assert_eq!(attributes, sent.attributes, "a producer's attribute is lost");
        let room = attributes_size(&sent.attributes) * 3 + sent.body_bytes + 10_000 < MESSAGE_BYTES_MAX;
        assert!(!room, "there was room, but the verdict is dropped: {attributes:?}");
        return;
    }
    check_written(sent, &attributes, failure);
    let mut beside = attributes.clone();
    let document = beside.remove(FAILURE).and_then(|attribute| attribute.text().map(str::to_owned));
    let restored = put_back(&beside, &document.unwrap_or_default());
    assert_eq!(restored.as_ref(), Some(&sent.attributes), "not restored exactly");
}

/// Within SQS's limits and our own; the document as it is read again.
fn check_written(sent: &Sent, attributes: &Attributes, failure: &Failure) -> Failure {
    assert!(is_sendable(attributes), "SQS would refuse {attributes:?}");
    assert!(sent.body_bytes + attributes_size(attributes) <= MESSAGE_BYTES_MAX, "too large");
    let again = Failure::from_attribute(&attributes[FAILURE]).expect("we wrote it");
    assert_eq!(again.verdict, failure.verdict);
    let unfolded = Failure { folded_attributes: FoldedAttributes::new(), ..again.clone() };
    let length = serde_json::to_string(&unfolded).map_or(usize::MAX, |json| json.len());
    assert!(length <= FAILURE_BYTES_MAX, "{length} bytes before folding");
    again
}
