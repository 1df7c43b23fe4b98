//! Presents plain messages as if they had an envelope, so that all the ledger's rules apply to them. Follows the
//! documentation rather than the code.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redeliver_core::message::{Attribute, AttributeValue, Attributes, Content};
use serde_json::Value;

use super::arrivals::dead_letter;
use super::copies::parse_document;
use crate::messages::ProducedMessage;

const REDELIVER: &str = "Redeliver";

/// Returns a plain message with `Redeliver` as the `metadata` of its body and the producer's attributes unfolded.
/// Returns any other message unchanged.
pub(super) fn as_envelope<'a>(produced: &ProducedMessage, content: &'a Content) -> Cow<'a, Content> {
    if !produced.plain {
        return Cow::Borrowed(content);
    }
    let mut attributes = content.attributes.clone();
    let redeliver = take_document(&mut attributes).unwrap_or_else(|| {
        // The initial content of `Redeliver`.
        format!(r#"{{"message_id":"{}"}}"#, produced.message_id.as_deref().unwrap_or_default())
    });
    let metadata = take_folded_attributes(&redeliver, &mut attributes);
    let body = format!(r#"{{"metadata":{metadata},"data":{{}}}}"#);
    Cow::Owned(Content { body, attributes, ..content.clone() })
}

/// Removes and returns `Redeliver`, even if it is folded into one of redeliver's documents.
fn take_document(attributes: &mut Attributes) -> Option<String> {
    if let Some(redeliver) = attributes.remove(REDELIVER) {
        return redeliver.text().map(str::to_owned);
    }
    ["Failure", "DeadLetter"].into_iter().find_map(|name| {
        let mut document = parse_document(attributes, name)?;
        let folded = document.get_mut("folded_attributes")?.as_object_mut()?.remove(REDELIVER)?;
        attributes.insert(name.to_owned(), Attribute::string(document.to_string()));
        Some(folded["text"].as_str()?.to_owned())
    })
}

/// Returns the document without its folded attributes, which are its last member, and adds them to `attributes`.
fn take_folded_attributes(redeliver: &str, attributes: &mut Attributes) -> String {
    let folded = serde_json::from_str::<Value>(redeliver).ok();
    let folded = folded.as_ref().and_then(|document| document["folded_attributes"].as_object());
    let (Some(folded), Some(at)) = (folded, redeliver.rfind(",\"folded_attributes\":")) else {
        return redeliver.to_owned();
    };
    // In a final record, redeliver's own attributes use some of these names, so the folded attributes are added to
    // those that `DeadLetter` folds.
    let record = dead_letter(attributes).map(|(record, _)| record);
    for (name, folded) in folded {
        if record.is_none() {
            attributes.insert(name.clone(), unfold_attribute(folded));
        }
    }
    if let Some(mut record) = record {
        let all = record["folded_attributes"].take();
        let mut all = all.as_object().cloned().unwrap_or_default();
        all.extend(folded.clone());
        record["folded_attributes"] = all.into();
        attributes.insert("DeadLetter".to_owned(), Attribute::string(record.to_string()));
    }
    let end = redeliver.rfind('}').unwrap_or(at);
    format!("{}{}", &redeliver[..at], &redeliver[end..])
}

fn unfold_attribute(folded: &Value) -> Attribute {
    let bytes = || STANDARD.decode(folded["base64"].as_str().unwrap_or("")).unwrap_or_default();
    let value = match folded["text"].as_str() {
        Some(text) => AttributeValue::Text(text.to_owned()),
        None => AttributeValue::Binary(bytes()),
    };
    Attribute { data_type: folded["data_type"].as_str().unwrap_or("").to_owned(), value }
}
