//! A final record's attributes: SQS accepts them, and no producer attribute is lost.

use arbitrary::{Result, Unstructured};
use redeliver_core::arrival::{ProducerAttributes, split_producer_attributes};
use redeliver_core::failure::Stage;
use redeliver_core::failure::annotation::{
    Annotation, Cause, DEAD_LETTER, DEAD_LETTER_BYTES_MAX, DeadLetter, ERROR_DETAILS,
    ERROR_DETAILS_BYTES_MAX, ERROR_TYPE, annotate_attributes, compute_fingerprint,
};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::json::forward_compatible::OpenEnum;
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::folding::FoldedAttributes;
use redeliver_core::message::{Attribute, Attributes, attributes_size};

use crate::generators;
use crate::messages::is_sendable;

pub(super) fn check(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    if let (Ok(sent), Ok(annotation)) =
        (generators::arbitrary_message(&mut bytes), arbitrary_annotation(&mut bytes))
    {
        check_record(&sent.attributes, sent.body_bytes, &annotation);
    }
}

fn arbitrary_annotation(bytes: &mut Unstructured<'_>) -> Result<Annotation> {
    let reason = *bytes.choose(DeadLetterReason::ALL)?;
    let cause = Cause {
        error_type: generators::arbitrary_text(bytes)?,
        message: generators::arbitrary_text(bytes)?,
        function: Some(generators::arbitrary_text(bytes)?).filter(|name| !name.is_empty()),
        unverified: bytes.arbitrary()?,
    };
    let details = generators::arbitrary_text(bytes)?;
    let record = DeadLetter {
        last_attempt_traceparent: None,
        last_attempt_logs: None,
        stage: OpenEnum::from(*bytes.choose(&[
            Stage::MessageProcessor,
            Stage::FailedMessageProcessor,
            Stage::FinalDlqAnnotator,
            Stage::AsyncRetryHandler,
        ])?),
        attempts: bytes.arbitrary()?,
        redrive_generation: bytes.arbitrary()?,
        held_seconds: None,
        redrive_count: None,
        first_sent_time: Some("2026-07-25T17:20:00.000000Z".to_owned())
            .filter(|_| reason.as_str().len() > 20),
        dead_lettered_at: "2026-07-25T18:20:00.000000Z".to_owned(),
        died_at: None,
        source_queue_arn: Some("arn:aws:sqs:eu-central-1:000000000000:source".to_owned()),
        sqs_message_id: "0191f3a2-7b1c-7d3e-8f00-0123456789ab".to_owned(),
        fingerprint: compute_fingerprint(reason.as_str(), &cause.error_type, &cause.message),
        cause,
        folded_attributes: FoldedAttributes::new(),
    };
    assert!(
        record.fingerprint.len() == 16 && record.fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit())
    );
    Ok(Annotation { reason: reason.into(), details, record })
}

fn check_record(producer: &Attributes, body_bytes: usize, annotation: &Annotation) {
    let attributes = annotate_attributes(producer, body_bytes, annotation);
    assert!(is_sendable(&attributes), "SQS would refuse {attributes:?}");
    assert!(body_bytes + attributes_size(&attributes) <= MESSAGE_BYTES_MAX, "too large");
    let code = Attribute::string(annotation.reason.as_str());
    // If our `DeadLetter` did not fit, it is absent or the producer's, and all producer attributes are kept.
    let written = attributes.get(DEAD_LETTER).filter(|ours| producer.get(DEAD_LETTER) != Some(*ours));
    let Some(written) = written else {
        for (name, attribute) in producer {
            assert_eq!(attributes.get(name), Some(attribute), "{name} is lost");
        }
        let ours: Vec<_> = attributes.keys().filter(|name| !producer.contains_key(*name)).collect();
        assert!(ours.iter().all(|name| *name == ERROR_TYPE || *name == ERROR_DETAILS), "{ours:?}");
        let same_name = [ERROR_TYPE, ERROR_DETAILS].iter().any(|name| producer.contains_key(*name));
        assert!(ours.is_empty() || !same_name, "ambiguous attributes: {:?}", attributes.keys());
        let room = attributes_size(producer) * 3 + body_bytes + 10_000 < MESSAGE_BYTES_MAX;
        assert!(!room, "there was room, but the record is not annotated: {producer:?}");
        return;
    };
    let record = DeadLetter::from_attribute(written).expect("our own document is readable");
    check_later_version(&attributes, written);
    assert_eq!(attributes[ERROR_TYPE], code);
    let details = attributes[ERROR_DETAILS].text().expect("the attribute is a string");
    assert!(!details.is_empty() && details.len() <= ERROR_DETAILS_BYTES_MAX);
    let unfolded = DeadLetter { folded_attributes: FoldedAttributes::new(), ..record };
    let length = serde_json::to_string(&unfolded).map_or(usize::MAX, |json| json.len());
    assert!(length <= DEAD_LETTER_BYTES_MAX, "{length} bytes");
    let ProducerAttributes { attributes: restored, came_back } = split_producer_attributes(attributes);
    assert!(came_back.is_some());
    assert_eq!(&restored, producer, "not restored exactly");
}

/// Checks that a final record from a later version, which has more members, can still be read.
fn check_later_version(attributes: &Attributes, document: &Attribute) {
    let json = document.text().expect("the attribute is a string");
    let mut later = attributes.clone();
    let more = json.replacen('{', r#"{"since":{"a":[1e400]},"#, 1).replacen(
        r#""cause":{"#,
        r#""cause":{"code":7,"#,
        1,
    );
    later.insert(DEAD_LETTER.to_owned(), Attribute::string(more));
    assert_eq!(
        split_producer_attributes(later),
        split_producer_attributes(attributes.clone()),
        "a later version's document is not recognized"
    );
}
