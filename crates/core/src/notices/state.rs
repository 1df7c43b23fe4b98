//! The state of a cause, an object beside the archive.

use std::ops::Not;

use serde::{Deserialize, Serialize};

use super::Told;
use crate::message::Timestamp;

/// The last notice of a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CauseState {
    /// `redeliver.cause/1`; the number changes when the meaning of a member changes.
    schema: String,
    pub(super) fingerprint: String,
    pub(super) error_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<String>,
    /// Time of the first death since the cause appeared.
    pub(super) first_at: Timestamp,
    /// Time of the last notice.
    pub(super) told_at: Timestamp,
    /// True if the last notice was that it is quiet.
    pub(super) is_quiet: bool,
    /// True if the notice that it appeared was refused: nobody has been told yet.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub(super) is_refused: bool,
    /// Identifies the invocation that wrote this.
    pub(super) claim: String,
}

impl CauseState {
    /// A cause that appears.
    pub(super) fn new(told: &Told, first_at: Timestamp, now: Timestamp, claim: &str) -> Self {
        Self {
            schema: "redeliver.cause/1".to_owned(),
            fingerprint: told.death.fingerprint.clone(),
            error_type: told.error_type.clone(),
            last_error: told.last_error.clone(),
            first_at,
            told_at: now,
            is_quiet: false,
            is_refused: false,
            claim: claim.to_owned(),
        }
    }

    /// The cause, told now.
    pub(super) fn told(&self, now: Timestamp, claim: &str) -> Self {
        Self { told_at: now, claim: claim.to_owned(), ..self.clone() }
    }

    /// The cause, quiet from now on.
    pub(super) fn quiet(&self, now: Timestamp, claim: &str) -> Self {
        Self { is_quiet: true, ..self.told(now, claim) }
    }

    /// The cause, as if it had not appeared: its next death is told.
    pub(super) fn refused(&self) -> Self {
        Self { is_quiet: true, is_refused: true, ..self.clone() }
    }

    pub(super) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and times always serialise")
    }
}
