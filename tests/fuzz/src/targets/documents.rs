//! The attributes of an arriving message, two of which anybody may have written: `Failure`, then `DeadLetter`.

use redeliver_core::annotation::{DEAD_LETTER, ERROR_DETAILS, ERROR_TYPE};
use redeliver_core::attributes::arrived;
use redeliver_core::failure::{FAILURE, Failure};
use redeliver_core::limits::ATTRIBUTES_MAX;
use redeliver_core::message::{Attribute, Attributes, attributes_size};

use super::parts;
use crate::json;
use crate::messages::{is_sendable, put_back};

pub(super) fn check(input: &str) {
    let [failure, dead_letter] = parts(input);
    for producers in [0, 2, 7] {
        let mut attributes: Attributes =
            (0..producers).map(|index| (format!("a{index}"), Attribute::string("x"))).collect();
        let texts = [(FAILURE, failure), (DEAD_LETTER, dead_letter), (ERROR_TYPE, "E")];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            attributes.insert(name.to_owned(), Attribute::string(text));
        }
        if is_sendable(&attributes) {
            check_arrival(&attributes);
        }
    }
}

fn check_arrival(attributes: &Attributes) {
    let found = arrived(attributes.clone());
    let text = |name| attributes.get(name).and_then(Attribute::text);
    let object =
        text(FAILURE).is_some_and(|text| json::read(text).is_ok_and(|node| node.members().is_some()));
    assert!(object || found.failure.is_none(), "no JSON object, but it is read: {attributes:?}");
    assert!(is_sendable(&found.producer), "what arrived could not be sent on: {:?}", found.producer);
    assert!(!found.producer.contains_key(FAILURE), "a reserved name");

    let mut expected = attributes.clone();
    expected.remove(FAILURE);
    let folds = |failure: &&Failure| failure.verdict.is_some() || failure.due_at.is_some();
    if found.failure.as_ref().filter(folds).is_some() {
        expected = put_back(&expected, text(FAILURE).unwrap_or_default()).unwrap_or(expected);
    }
    if found.came_back {
        let record = expected.get(DEAD_LETTER).and_then(Attribute::text).unwrap_or_default().to_owned();
        for name in [DEAD_LETTER, ERROR_TYPE, ERROR_DETAILS] {
            expected.remove(name);
        }
        let whole = put_back(&expected, &record);
        expected = whole.expect("what SQS would not have taken from a producer is none of ours");
    }
    let again = arrived(found.producer.clone());
    assert!(!again.came_back && again.producer == found.producer, "judged anew on the next queue");
    assert_eq!(found.producer, expected);
    if let Some(failure) = found.failure {
        check_failure(&failure, &found.producer);
    }
}

/// A document that was read can be written and read again.
fn check_failure(failure: &Failure, producer: &Attributes) {
    let _no_time_is_fine = failure.sent_at();
    let Some(beside) = failure.beside(producer, 1) else {
        let size = attributes_size(producer) + serde_json::to_string(failure).map_or(0, |json| json.len());
        assert!(producer.len() >= ATTRIBUTES_MAX || size > 900, "{failure:?} has no place");
        return;
    };
    assert!(is_sendable(&beside), "{beside:?}");
    if let Some(hop) = failure.beside_folded(producer, 1) {
        assert!(is_sendable(&hop), "{hop:?}");
    }
    let again = Failure::from_attribute(&beside[FAILURE]).expect("we wrote it");
    let kept = |failure: &Failure| Failure {
        error_type: String::new(),
        details: String::new(),
        explanation: String::new(),
        ..failure.clone()
    };
    assert_eq!(kept(&again), kept(failure));
}
