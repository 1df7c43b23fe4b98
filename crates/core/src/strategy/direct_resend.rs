//! `direct-resend`: what failed is sent again with a delay by the function that called it. What SQS moves still comes to
//! the intermediate DLQ.

use super::{Definition, delayed_resend};

pub(super) const DEFINITION: Definition = Definition {
    name: "direct-resend",
    summary: "It is sent again with a delay by the function that called it",
    ..delayed_resend::DEFINITION
};
