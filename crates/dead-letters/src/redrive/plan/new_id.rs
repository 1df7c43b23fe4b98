//! `--new-id`: a new id for a message that the edit turned into a different one.

use redeliver_core::message::metadata::OUR_MEMBERS;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use crate::edit::splice_edit;
use crate::surrogates::read_lossy;

/// A body with a new `message_id`.
pub(super) struct BodyWithNewId {
    pub(super) body: String,
    /// The previous id, or the SQS message id of the first delivery if the body had no UUID.
    pub(super) old_id: String,
}

/// Assigns a new `message_id` to a body.
///
/// The new id is derived, not random (RFC 9562, UUID version 8), so that it is the same in a second run and for all
/// copies of the message. It depends on the old id, the new generation, and the producer's part of the edited message.
pub(super) fn assign_new_id(body: &str, first_id: &str, generation: u32) -> BodyWithNewId {
    let before = read_lossy(body).unwrap_or_default();
    let own = before["metadata"]["message_id"].as_str();
    let old_id = own.filter(|id| Uuid::try_parse(id).is_ok()).unwrap_or(first_id).to_owned();
    let mut after = before.clone();
    if let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) {
        let new_id = derive_id(&old_id.to_ascii_lowercase(), generation, &producer_part(&before).to_string());
        metadata.insert("message_id".to_owned(), new_id.to_string().into());
    }
    BodyWithNewId { body: splice_edit(body, &before, &after), old_id }
}

/// Returns the id in a body, in any format.
pub(super) fn message_id_in(body: &str) -> Option<String> {
    Some(read_lossy(body).ok()?["metadata"]["message_id"].as_str()?.to_owned())
}

/// Returns the body without the members that redeliver wrote, which differ between copies of a message.
fn producer_part(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !OUR_MEMBERS.contains(&name.as_str()));
    }
    body
}

pub(super) fn derive_id(old_id: &str, generation: u32, content: &str) -> Uuid {
    let mut hash = Sha256::new();
    for part in ["redeliver redrive --new-id", old_id, &generation.to_string(), content] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}
