//! The state of one dead letter in the journal.

/// The state of one dead letter.
#[derive(Debug, Default)]
pub(super) struct LetterState {
    pub(super) step: LetterStep,
    /// The message's own id at the last intent to send it.
    pub(super) message_id: String,
    /// The message's generation at that intent.
    pub(super) generation: u32,
    pub(super) is_edited: bool,
    /// The number of messages that may be in the target queue for this dead letter.
    possible_sends: u32,
}

/// The progress of a dead letter. It never leaves `Sent`, since a confirmed message is not sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LetterStep {
    #[default]
    NotSent,
    /// About to be sent: without a later entry, it may have been sent.
    Intended,
    /// Sent back and confirmed; its deletion is not confirmed.
    Sent,
    Deleted,
}

impl LetterState {
    /// Returns true if a message sent for this dead letter may be in the target queue.
    pub(super) const fn may_have_been_sent(&self) -> bool {
        self.possible_sends > 0
    }

    /// Adds possible sends, and returns the number of new possible copies.
    pub(super) fn add_possible_sends(&mut self, sends: u32) -> u64 {
        let before = self.possible_copies();
        self.possible_sends += sends;
        self.possible_copies() - before
    }

    /// Returns the number of possible copies. The first message in the queue is intended; only further ones are copies.
    pub(super) fn possible_copies(&self) -> u64 {
        u64::from(self.possible_sends.saturating_sub(1))
    }
}
