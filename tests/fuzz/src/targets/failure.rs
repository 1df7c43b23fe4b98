//! The attributes of a hand-off, of a hop and of a verdict: SQS takes them, and no producer attribute is lost.

use arbitrary::{Result, Unstructured};
use redeliver_core::arrival::producers_attributes;
use redeliver_core::failure::{
    Answer, CameBack, Case, Delivery, Document, FAILURE, FAILURE_BYTES_MAX, Failure, HandOff, Hop, Kind,
    LastError, Stage, Verdict,
};
use redeliver_core::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX};
use redeliver_core::message::{Attribute, Attributes, attributes_size};
use redeliver_core::origin::Origin;
use redeliver_core::reason::DeadLetterReason;
use redeliver_core::tolerant::Unknown;

use crate::made::{self, Sent};
use crate::messages::{is_sendable, moment, opened, put_back};

pub(super) fn check(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    if let (Ok(sent), Ok(verdict)) = (made::sent(&mut bytes), verdict(&mut bytes)) {
        let Some((hand_off, _)) = Document::Verdict(verdict.clone()).into_hand_off() else { return };
        check_hand_off(&sent, &hand_off);
        check_verdict(&sent, &verdict);
        check_hop(&sent, &Hop { hand_off, due_at: moment() });
    }
}

fn verdict(bytes: &mut Unstructured<'_>) -> Result<Verdict> {
    let error = LastError { error_type: made::text(bytes)?, details: made::text(bytes)? };
    let explanation = made::text(bytes)?;
    let kind = *bytes.choose(&[Kind::Transient, Kind::Permanent, Kind::Snooze, Kind::NotStarted])?;
    let answer = Some(Answer { kind: kind.into(), retry_after_seconds: bytes.arbitrary()? });
    let came_back =
        if bytes.arbitrary()? { Some(CameBack { generation_before: bytes.arbitrary()? }) } else { None };
    let delivery = Delivery {
        failed_at: moment(),
        source_message_id: "0191f3a2-7b1c-7d3e-8f00-0123456789ab".to_owned(),
        source_queue_arn: "arn:aws:sqs:eu-central-1:000000000000:source".to_owned(),
        sent_at: moment(),
        came_back,
        origin: *bytes.choose(&[Origin::Producer, Origin::Unknown])?,
    };
    let attempts = bytes.arbitrary()?;
    let failure = Failure { error, answer, delivery, attempts, unknown: Unknown::default() };
    let code = (*bytes.choose(DeadLetterReason::ALL)?).into();
    Ok(Verdict {
        code,
        case: Some(Case { stage: Some(Stage::MessageProcessor.into()), explanation, failure }),
    })
}

fn check_hand_off(sent: &Sent, hand_off: &HandOff) {
    let Some(attributes) = hand_off.attached(&sent.attributes, sent.body_bytes) else {
        let full = sent.body_bytes + attributes_size(&sent.attributes) + FAILURE_BYTES_MAX + 13;
        assert!(sent.attributes.len() >= ATTRIBUTES_MAX || full > MESSAGE_BYTES_MAX, "there was room");
        return;
    };
    let Document::HandOff(again) = check_written(sent, &attributes) else { panic!("{attributes:?}") };
    assert_eq!((&again.answer, &again.delivery), (&hand_off.answer, &hand_off.delivery));
    assert_eq!(producers_attributes(attributes).0, producers_attributes(sent.attributes.clone()).0);
}

fn check_hop(sent: &Sent, hop: &Hop) {
    if let Some(attributes) = hop.attached_or_folded(&sent.attributes, sent.body_bytes) {
        let Document::Hop(again) = check_written(sent, &attributes) else { panic!("{attributes:?}") };
        assert_eq!((again.due_at, &again.hand_off.delivery), (hop.due_at, &hop.hand_off.delivery));
        check_restored(sent, &attributes);
    }
}

fn check_verdict(sent: &Sent, verdict: &Verdict) {
    let attributes = verdict.attached_at_any_price(&sent.attributes, sent.body_bytes);
    if !attributes.contains_key(FAILURE) {
        assert_eq!(attributes, sent.attributes, "a producer's attribute is lost");
        let room = attributes_size(&sent.attributes) * 3 + sent.body_bytes + 10_000 < MESSAGE_BYTES_MAX;
        assert!(!room, "there was room, but the verdict is dropped: {attributes:?}");
        return;
    }
    let Document::Verdict(again) = check_written(sent, &attributes) else { panic!("{attributes:?}") };
    assert_eq!(again.code, verdict.code);
    check_restored(sent, &attributes);
}

fn check_restored(sent: &Sent, attributes: &Attributes) {
    let mut beside = attributes.clone();
    let document = beside.remove(FAILURE).and_then(|attribute| attribute.text().map(str::to_owned));
    let restored = put_back(&beside, &document.unwrap_or_default());
    assert_eq!(restored.as_ref(), Some(&sent.attributes), "not restored exactly");
}

fn check_written(sent: &Sent, attributes: &Attributes) -> Document {
    assert!(is_sendable(attributes), "SQS would refuse {attributes:?}");
    assert!(sent.body_bytes + attributes_size(attributes) <= MESSAGE_BYTES_MAX, "too large");
    let text = attributes.get(FAILURE).and_then(Attribute::text).expect("we wrote it");
    let mut unfolded: serde_json::Value = serde_json::from_str(text).expect("we wrote it");
    unfolded.as_object_mut().map(|members| members.remove("folded_attributes"));
    let length = unfolded.to_string().len();
    assert!(length <= FAILURE_BYTES_MAX, "{length} bytes before folding");
    opened(attributes.clone(), moment()).document().cloned().expect("we wrote it")
}
