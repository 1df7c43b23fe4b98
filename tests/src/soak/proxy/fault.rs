//! What can go wrong between a function and SQS.

use rand::RngExt as _;

use crate::soak::dice::{Dice, pick};
use crate::soak::history::Invocation;

/// Invocations that meet nothing but one fault.
const OUTAGES_PER_MILLE: u32 = 12;

/// What a request to SQS meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is passed on after so many milliseconds.
    Delay(u64),
    /// The connection breaks; nothing was passed on.
    ResetUnsent,
    /// No answer, for longer than the client waits; nothing was passed on.
    HungUnsent,
    /// 500; nothing was passed on.
    Error500Unsent,
    /// 502 from some gateway, not in SQS's language; nothing was passed on.
    GatewayUnsent,
    /// 503 with a throttling code; nothing was passed on.
    Throttled503,
    /// 400 with a throttling code, as SQS does it; nothing was passed on.
    Throttled400,
    /// It was done; the connection breaks instead of an answer.
    ResetAnswerLost,
    /// It was done; no answer, for longer than the client waits before it sends again.
    HungAnswerLost,
    /// It was done; 500.
    Error500Done,
    /// It was done; half of the answer.
    Truncated,
    /// It was done; an answer that is none.
    Garbled,
    /// It is done, and confirmed, when the client may have sent it again.
    Late,
    /// Some entries are not passed on and called failed.
    EntriesHeldBack(Denial),
    /// All entries are done, some are called failed.
    EntriesDenied(Denial),
    /// All entries are done, some are not named in the answer.
    EntriesForgotten,
}

/// How an entry is called failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The service's own fault.
    Service,
    /// A throttle, which SQS calls the sender's fault.
    Throttle,
    /// The sender's fault: no use to try again at once.
    Sender,
}

impl Denial {
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Service => "InternalError",
            Self::Throttle => "RequestThrottled",
            Self::Sender => "KMS.DisabledException",
        }
    }

    pub(super) const fn is_sender_fault(self) -> bool {
        !matches!(self, Self::Service)
    }
}

impl Fault {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Delay(_) => "delay",
            Self::ResetUnsent => "reset, not passed on",
            Self::HungUnsent => "hung, not passed on",
            Self::Error500Unsent => "500, not passed on",
            Self::GatewayUnsent => "502 of a gateway, not passed on",
            Self::Throttled503 => "503 throttle",
            Self::Throttled400 => "400 throttle",
            Self::ResetAnswerLost => "reset, answer lost",
            Self::HungAnswerLost => "hung, answer lost",
            Self::Error500Done => "500, though done",
            Self::Truncated => "answer truncated",
            Self::Garbled => "answer garbled",
            Self::Late => "done too late",
            Self::EntriesHeldBack(_) => "entries not passed on",
            Self::EntriesDenied(_) => "entries called failed, though done",
            Self::EntriesForgotten => "entries not named, though done",
        }
    }

    /// The plan of a soak: some four fifths of the requests meet nothing, and a few invocations nothing but one fault.
    #[must_use]
    pub fn at_random(dice: Dice, request: u64, invocation: Invocation) -> Self {
        Self::outage(dice, invocation).unwrap_or_else(|| Self::of_request(dice, request))
    }

    /// What every request of an invocation meets, so that it runs out of time: only then does a function have to give its records back.
    pub(super) fn outage(dice: Dice, invocation: Invocation) -> Option<Self> {
        let mut dice = dice.roll(("outage", invocation));
        let faults = [
            (3, Self::ResetUnsent),
            (1, Self::HungUnsent),
            (1, Self::Error500Unsent),
            (1, Self::GatewayUnsent),
            (1, Self::Throttled503),
            (1, Self::Throttled400),
        ];
        (dice.random_range(0..1000) < OUTAGES_PER_MILLE).then(|| pick(&mut dice, &faults))
    }

    fn of_request(dice: Dice, request: u64) -> Self {
        let mut dice = dice.roll(("fault", request));
        let denial = pick(&mut dice, &[(2, Denial::Service), (1, Denial::Throttle), (1, Denial::Sender)]);
        let millis = dice.random_range(5..=500);
        let faults = [
            (80, Self::Delay(millis)),
            (14, Self::ResetUnsent),
            (3, Self::HungUnsent),
            (12, Self::Error500Unsent),
            (5, Self::GatewayUnsent),
            (10, Self::Throttled503),
            (10, Self::Throttled400),
            (9, Self::ResetAnswerLost),
            (3, Self::HungAnswerLost),
            (6, Self::Error500Done),
            (6, Self::Truncated),
            (3, Self::Garbled),
            (3, Self::Late),
            (20, Self::EntriesHeldBack(denial)),
            (9, Self::EntriesDenied(denial)),
            (7, Self::EntriesForgotten),
        ];
        let in_all: u32 = faults.iter().map(|(weight, _)| weight).sum();
        let place = dice.random_range(0..1000);
        if place < in_all { pick(&mut dice, &faults) } else { Self::None }
    }
}
