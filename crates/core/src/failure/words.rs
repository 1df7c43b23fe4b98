//! The words of the documents that this version knows.

use strum::{IntoStaticStr, VariantArray};

use crate::json::tolerant::Vocabulary;

/// What is to be done with a failed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Kind {
    Transient,
    Permanent,
    /// Later, without spending an attempt.
    Snooze,
    /// The deadline came before its turn: again, without spending an attempt.
    NotStarted,
    /// It was not called, since its target is down: again, without spending an attempt.
    Held,
    /// SQS moved it, and nobody knows whether it was called: again, within a budget of its own.
    Unanswered,
}

impl Kind {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }
}

impl Vocabulary for Kind {}

/// The function that gave a message up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Stage {
    /// It found the message invalid, or decided against another retry.
    MessageProcessor,
    /// It decided against another retry.
    FailedMessageProcessor,
    /// The message came by redrive; nobody else had a say.
    FinalDlqAnnotator,
    /// It decided against another invocation, or Lambda will never take one.
    AsyncRetryHandler,
}

impl Vocabulary for Stage {}
