//! The two forms of a message body.

/// The form of a message's body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BodyForm {
    /// `{"metadata":{…},"data":{…}}`.
    #[default]
    Envelope,
    /// Any other body (`ENVELOPE=optional`).
    Plain {
        /// The producer's own id, if it is not a UUID and is valid in a header.
        idempotency_key: Option<String>,
    },
}
