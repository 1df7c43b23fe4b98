//! Whether a message is still what was sent, but for what redeliver may write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::super::history::{Attribute, Attributes, Content, Delivery, Send, Stage};
use super::super::messages::Sent;
use super::{DELAY_SECONDS_MAX, Fault, Kind, REDRIVES_MAX};

/// The members of `metadata`.
pub(super) type Metadata = Map<String, Value>;

/// The members of `metadata` that redeliver writes.
const OUR_MEMBERS: [&str; 7] = [
    "retry_attempt",
    "next_retry_time",
    "first_sent_time",
    "retry_history",
    "snooze_count",
    "redrive_count",
    "redrive_count_at_answer",
];

/// Checks body, attributes and group of a message in a queue.
pub(super) fn check_content(sent: &Sent, stage: Stage, content: &Content) -> Result<Metadata, Fault> {
    let changed = |text: String| (Kind::Changed, format!("in the {}: {text}", stage.name()));
    let metadata = metadata(sent, &content.body).map_err(changed)?;
    let producers = producers(stage, &content.attributes);
    if producers != sent.content.attributes {
        let text = format!("the attributes are {producers:?}, were {:?}", sent.content.attributes);
        return Err(changed(text));
    }
    if content.group != sent.content.group {
        return Err(changed(format!("the group is {:?}, was {:?}", content.group, sent.content.group)));
    }
    Ok(metadata)
}

/// `metadata` of a body, all else of which is byte for byte as it was sent.
pub(super) fn metadata(sent: &Sent, body: &str) -> Result<Metadata, String> {
    let Some(frame) = &sent.frame else {
        return if body == sent.content.body {
            Ok(Map::new())
        } else {
            Err("the body is another one".to_owned())
        };
    };
    let text = body.strip_prefix(&*frame.before).and_then(|rest| rest.strip_suffix(&*frame.after));
    let text = text.ok_or("bytes outside of metadata are not as they were")?;
    let metadata: Metadata = serde_json::from_str(text).map_err(|error| format!("metadata: {error}"))?;
    let mut others = metadata.clone();
    others.retain(|name, _| !OUR_MEMBERS.contains(&name.as_str()));
    if others == frame.metadata {
        Ok(metadata)
    } else {
        Err(format!("the producer's metadata are {others:?}"))
    }
}

/// `retry_attempt`.
pub(super) fn attempt(metadata: &Metadata) -> u64 {
    count(metadata, "retry_attempt")
}

/// `redrive_count`, since the last answer.
pub(super) fn redrives(metadata: &Metadata) -> u64 {
    // More at the last answer than in all is beyond every limit.
    redrives_in_all(metadata).checked_sub(count(metadata, "redrive_count_at_answer")).unwrap_or(u64::MAX)
}

/// `redrive_count`.
pub(super) fn redrives_in_all(metadata: &Metadata) -> u64 {
    count(metadata, "redrive_count")
}

fn count(metadata: &Metadata, name: &str) -> u64 {
    // What is no number is beyond every limit.
    metadata.get(name).map_or(0, |count| count.as_u64().unwrap_or(u64::MAX))
}

/// What the functions wrote among the attributes, as JSON.
pub(super) fn document(attributes: &Attributes, name: &str) -> Value {
    let text = attributes.get(name).map(Attribute::text).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// `type` of the `Failure` that a message carries, or the newest of its history.
pub(in crate::soak) fn failure_type(content: &Content) -> String {
    let failure = document(&content.attributes, "Failure");
    let body: Value = serde_json::from_str(&content.body).unwrap_or_default();
    let newest = body["metadata"]["retry_history"].as_array().and_then(|history| history.last());
    let newest = newest.and_then(|newest| newest["error_type"].as_str());
    failure["type"].as_str().or(newest).unwrap_or_default().to_owned()
}

/// The attributes without ours and with what is folded into ours.
fn producers(stage: Stage, attributes: &Attributes) -> Attributes {
    let ours: &[&str] = match stage {
        Stage::Source => &[],
        Stage::Intermediate | Stage::Annotation => &["Failure"],
        Stage::Final => &["ErrorType", "ErrorDetails", "DeadLetter"],
    };
    let mut producers = attributes.clone();
    for name in ours {
        producers.remove(*name);
        let document = document(attributes, name);
        for (name, folded) in document["folded_attributes"].as_object().into_iter().flatten() {
            let text = folded["text"].as_str().map(|text| text.as_bytes().to_vec());
            let bytes = folded["base64"].as_str().and_then(|base64| STANDARD.decode(base64).ok());
            let data_type = folded["data_type"].as_str().unwrap_or_default().to_owned();
            let value = text.or(bytes).unwrap_or_default();
            producers.insert(name.clone(), Attribute { data_type, value });
        }
    }
    producers
}

/// The message-processor has decided itself on a message that its target answered.
fn gives_up(content: &Content) -> bool {
    document(&content.attributes, "Failure")["verdict"].is_string()
}

/// Checks what a function sent against what it had received.
pub(super) fn check_send(sent: &Sent, send: &Send, deliveries: &[&Delivery]) -> Result<(), Fault> {
    let Some(from) = deliveries.first().map(|delivery| delivery.from) else {
        return Ok(()); // told of elsewhere
    };
    let way = format!("from the {} to the {}", from.name(), send.to.name());
    let known = match (from, send.to) {
        (Stage::Source, Stage::Annotation) => sent.frame.is_none() || gives_up(&send.content),
        (Stage::Source, Stage::Intermediate | Stage::Source) | (Stage::Intermediate, Stage::Source) => {
            sent.frame.is_some()
        }
        (Stage::Intermediate, Stage::Annotation) | (Stage::Annotation, Stage::Final) => true,
        _ => false,
    };
    if !known {
        return Err((Kind::Misled, format!("it was sent {way}")));
    }
    let new = check_content(sent, send.to, &send.content)?;
    if send.to != Stage::Source {
        let same = deliveries.iter().any(|delivery| delivery.content.body == send.content.body);
        return if same { Ok(()) } else { Err((Kind::Changed, format!("another body was sent {way}"))) };
    }
    let follows = |old: &Metadata| {
        let more = |name| count(&new, name).checked_sub(count(old, name));
        let counted = [more("retry_attempt"), more("snooze_count"), more("redrive_count")];
        // What SQS moved spends no attempt, nobody answered for it, and nothing else is counted as moved.
        let was_moved = counted[2] == Some(1);
        if was_moved && (from == Stage::Source || more("redrive_count_at_answer") != Some(0)) {
            return None;
        }
        (counted.iter().copied().sum::<Option<u64>>() == Some(1)).then_some(was_moved)
    };
    let olds = deliveries.iter().filter_map(|delivery| metadata(sent, &delivery.content.body).ok());
    // Copies of one message may be in one batch: it may follow any of them.
    let moves: Vec<_> = olds.into_iter().filter_map(|old| follows(&old)).collect();
    if moves.is_empty() {
        return Err((
            Kind::Miscounted,
            format!("attempt {} was sent {way} after another one", attempt(&new)),
        ));
    }
    let was_moved = moves.contains(&true);
    let longest =
        if was_moved { 5 << (redrives(&new).clamp(1, REDRIVES_MAX) - 1) } else { DELAY_SECONDS_MAX };
    if send.delay_seconds > longest {
        return Err((Kind::Miscounted, format!("a delay of {} s", send.delay_seconds)));
    }
    Ok(())
}
