//! Outages of the target, as messages and hand-offs report them.

use crate::message::Timestamp;

/// An outage, as the environment that holds a message knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    pub since: Timestamp,
    /// First calls in a row that failed; 0 if none shows an outage, as with a target that is only busy.
    pub first_failures: u16,
}
