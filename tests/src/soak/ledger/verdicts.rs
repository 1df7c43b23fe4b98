//! Whether an error type fits what happened to its message.

use super::super::history::{Answer, Attribute, Content, Stage};
use super::super::messages::{Fate, Sent};
use super::content::{Metadata, attempt, document, redrives, redrives_in_all};
use super::{ATTEMPTS_MAX, Fault, Kind, REDRIVES_IN_ALL_MAX, REDRIVES_MAX, Story};

/// After so many receives SQS takes a message from the annotation queue to the final DLQ, as it is.
const ANNOTATION_RECEIVES: u32 = 10;
/// After so many receives SQS takes a message from the intermediate DLQ to the annotation queue.
const INTERMEDIATE_RECEIVES: u32 = 100;

/// The error type of a final record; empty where it has none.
pub(super) fn error_type(content: &Content) -> &str {
    content.attributes.get("ErrorType").map_or("", Attribute::text)
}

pub(super) fn check_verdict(
    sent: &Sent,
    content: &Content,
    metadata: &Metadata,
    story: &Story<'_>,
) -> Result<(), Fault> {
    let wrong = |text: String| Err((Kind::WrongVerdict, format!("{}: {text}", error_type(content))));
    let attempt = attempt(metadata);
    let received = |stage: Stage, times: u32| {
        story.deliveries().any(|delivery| delivery.from == stage && delivery.receives >= times)
    };
    let fits = match error_type(content) {
        "INVALID_MESSAGE_FORMAT" => sent.fate == Fate::Malformed,
        "INVALID_MESSAGE_SCHEMA" => sent.fate == Fate::Invalid,
        // Every attempt was received, and none is left.
        "RETRY_ATTEMPT_EXCEEDED" => {
            attempt == ATTEMPTS_MAX && (0..=ATTEMPTS_MAX).all(|spent| story.attempts(sent).contains(&spent))
        }
        "NON_RETRYABLE_ERROR" => {
            story.calls().any(|call| call.answer == Answer::Permanent && call.attempt == attempt.to_string())
        }
        "MESSAGE_EXPIRED" => sent.fate == Fate::Expired,
        "MESSAGE_TOO_LARGE" => sent.fate == Fate::Oversize,
        "ORCHESTRATION_FAILED" => {
            redrives(metadata) == REDRIVES_MAX
                || redrives_in_all(metadata) == REDRIVES_IN_ALL_MAX
                || received(Stage::Intermediate, INTERMEDIATE_RECEIVES)
        }
        "" => received(Stage::Annotation, ANNOTATION_RECEIVES),
        _ => false,
    };
    if !fits {
        return wrong(format!("does not fit {:?} at attempt {attempt}", sent.fate));
    }
    let document = document(&content.attributes, "DeadLetter");
    // Nothing fits beside an oversize message but the error type.
    if !document.is_object() {
        return if sent.fate == Fate::Oversize || error_type(content).is_empty() {
            Ok(())
        } else {
            wrong("no DeadLetter".to_owned())
        };
    }
    let told = document["attempts"].as_u64();
    if told != sent.frame.as_ref().map(|_| attempt) {
        return wrong(format!("DeadLetter tells of {told:?} attempts, the body of {attempt}"));
    }
    let details = content.attributes.get("ErrorDetails").map_or("", Attribute::text);
    if error_type(content) == "RETRY_ATTEMPT_EXCEEDED"
        && !details.starts_with(&format!("Max retry attempts {ATTEMPTS_MAX} exceeded; last error "))
    {
        return wrong(format!("the details are {details:?}"));
    }
    Ok(())
}
