//! One dead letter, as far as the journal knows.

/// What the journal says of one dead letter.
#[derive(Debug, Default)]
pub(super) struct Letter {
    pub(super) step: Step,
    /// Its own id when it was last about to be sent.
    pub(super) message_id: String,
    /// How many messages there may be of it in the queue that it is sent to.
    perhaps_there: u32,
}

/// How far a dead letter is on its way. Never back from `Sent`: what is confirmed is not sent again, whatever follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    #[default]
    NotSent,
    /// About to be sent: perhaps it was, while nothing else is written of it.
    Intended,
    /// Sent back and confirmed; its deletion is not.
    Sent,
    Deleted,
}

impl Letter {
    /// Whether there may be a message of it in the queue that it is sent to.
    pub(super) const fn is_perhaps_sent(&self) -> bool {
        self.perhaps_there > 0
    }

    /// It was perhaps sent so often; how many messages there may be that nobody wanted.
    pub(super) fn perhaps_sent(&mut self, sends: u32) -> u64 {
        // One message in the queue is the one that was wanted; only what is beyond it is a copy.
        let before = self.perhaps_there.saturating_sub(1);
        self.perhaps_there += sends;
        u64::from(self.perhaps_there.saturating_sub(1) - before)
    }
}
