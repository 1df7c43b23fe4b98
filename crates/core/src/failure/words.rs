//! The words of the documents that this version knows.

use crate::tolerant::Vocabulary;

/// What is to be done with a failed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Snooze => "snooze",
            Self::NotStarted => "not_started",
            Self::Held => "held",
            Self::Unanswered => "unanswered",
        }
    }
}

impl Vocabulary for Kind {
    const ALL: &'static [Self] =
        &[Self::Transient, Self::Permanent, Self::Snooze, Self::NotStarted, Self::Held, Self::Unanswered];

    fn word(self) -> &'static str {
        self.as_str()
    }
}

/// The function that gave a message up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Vocabulary for Stage {
    const ALL: &'static [Self] = &[
        Self::MessageProcessor,
        Self::FailedMessageProcessor,
        Self::FinalDlqAnnotator,
        Self::AsyncRetryHandler,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::MessageProcessor => "message-processor",
            Self::FailedMessageProcessor => "failed-message-processor",
            Self::FinalDlqAnnotator => "final-dlq-annotator",
            Self::AsyncRetryHandler => "async-retry-handler",
        }
    }
}
