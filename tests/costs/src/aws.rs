//! The decoders in `crates/aws` that do not use the AWS SDK, compiled without the rest of the crate.
#![expect(unreachable_pub, dead_code, reason = "public or used in its crate, not here")]

#[path = "../../../crates/aws/src/received.rs"]
pub(crate) mod received;

#[path = "../../../crates/aws/src/lambda/event.rs"]
pub(crate) mod lambda;

#[path = "../../../crates/aws/src/targets/retry_after.rs"]
mod retry_after;

#[path = "../../../crates/aws/src/targets/own_function/exception.rs"]
mod exception;

#[path = "../../../crates/aws/src/targets/own_function/answer.rs"]
mod answer;

#[path = "../../../crates/aws/src/targets/own_function/taken_as_success.rs"]
mod taken_as_success;

use std::time::Duration;

pub(crate) use answer::FunctionResponse;
use redeliver_core::handler::HandlerError;
use redeliver_core::message::Timestamp;

/// Returns the delay that a target requests with `Retry-After`.
pub(crate) fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    retry_after::parse_retry_after(value, now)
}

/// Returns the outcome of each record in a batch according to a user's own function, and the shape of its response if
/// that resembles a failure report.
pub(crate) fn read_outcomes(
    answer: &FunctionResponse,
    ids: &[&str],
) -> (Vec<Result<(), HandlerError>>, Option<&'static str>) {
    let outcomes = answer::outcomes_per_record(answer, ids);
    let shape = match answer {
        FunctionResponse::Response(body) => taken_as_success::shape_taken_as_success(body, ids),
        _ => None,
    };
    (outcomes, shape)
}
