//! `direct-resend`: failed messages are sent again with a delay by the function that called them. Messages that SQS
//! moves still go to the intermediate DLQ.

use super::{Definition, delayed_resend};

pub(super) const DEFINITION: Definition = Definition {
    name: "direct-resend",
    summary: "It is sent again with a delay by the function that called it",
    ..delayed_resend::DEFINITION
};
