//! What several targets share.

use std::sync::LazyLock;

use redeliver_core::message::{Attributes, Content, OutgoingMessage, Timestamp};
use redeliver_core::schema::MessageSchema;

/// A message's id.
pub(crate) const ID: &str = "0191f3a2-7b1c-7d3e-8f00-0123456789ab";

/// 2026-07-25T17:20:00Z.
pub(crate) fn moment() -> Timestamp {
    Timestamp::from_timestamp(1_785_000_000, 0).expect("a moment of this century")
}

/// Compiled once.
pub(crate) fn schema() -> &'static MessageSchema {
    static SCHEMA: LazyLock<MessageSchema> = LazyLock::new(MessageSchema::default);
    &SCHEMA
}

/// Whether SQS would take these attributes beside a short body.
pub(crate) fn is_sendable(attributes: &Attributes) -> bool {
    let content = Content { body: "-".to_owned(), attributes: attributes.clone(), ..Content::default() };
    OutgoingMessage::new(content).is_ok()
}
