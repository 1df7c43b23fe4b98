//! Outages of the target, as reported in messages and hand-offs.

use crate::message::Timestamp;

/// An outage of the target, as recorded in messages held because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Start of the outage.
    pub since: Timestamp,
    /// Number of consecutive first calls that failed, at most 65,535; 0 if the target is only busy ("not now").
    pub first_failures: u16,
}
