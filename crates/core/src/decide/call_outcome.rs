//! Classifies failed calls as evidence of the target's health, by the kind of error rather than the number of errors.
//!
//! See docs/handlers.md for the table and the reasoning.

use std::sync::LazyLock;
use std::time::Duration;

use crate::decide::classify_error;
use crate::failure::{Classification, FailureClass};
use crate::handler::{FailureKind, HandlerError};
use crate::policy::{Globs, Policy, status_without_code};
use crate::truncate;

/// The outcome of a call, as evidence of the target's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The target is up, regardless of its response to the message.
    Answer,
    /// The message itself may have caused the error: a crash, a timeout, a missing route. Spends an attempt, unless the
    /// first calls for many messages show an outage.
    Fault,
    /// "Not now" for any message: the target cannot be reached, or refuses the caller. Spends no attempt.
    Unavailable,
    /// "Not now": the target refuses calls at this rate, possibly with a `Retry-After`. Spends no attempt.
    Refusal(Option<Duration>),
    /// "Not now" for this message only: the response had a `Retry-After`, and its status concerns the message. Spends
    /// no attempt, and counts as an answer from the target.
    Later(Duration),
}

impl CallOutcome {
    /// Returns true if the outcome is "not now", so that the message is held.
    #[must_use]
    pub const fn is_not_now(self) -> bool {
        matches!(self, Self::Unavailable | Self::Refusal(_) | Self::Later(_))
    }

    /// Returns true if the outcome shows that the target is up.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Answer | Self::Later(_))
    }
}

/// Errors with which a target limits its call rate.
const RATE_LIMIT_ERRORS: [&str; 2] = ["HttpStatus.429", "Lambda.Throttled"];

/// Errors that affect every message: no connection, a proxy that cannot reach its target, or a caller, method or
/// address that the target refuses. Cloudflare returns 52x and 530 for an unreachable origin.
static NOT_NOW_ERRORS: LazyLock<Globs> = LazyLock::new(|| {
    Globs::built_in(&[
        "Http.Connect",
        "Http.ConnectTimeout",
        "Http.Dns",
        "Http.NoCredentials",
        "Http.NotSigned",
        "Http.Proxy",
        "Http.Refused",
        "Http.Tls",
        "HttpStatus.3??",
        "HttpStatus.401",
        "HttpStatus.403",
        "HttpStatus.405",
        "HttpStatus.407",
        "HttpStatus.502",
        "HttpStatus.503",
        "HttpStatus.504",
        "HttpStatus.52?",
        "HttpStatus.530",
        "Lambda.AccessDenied",
        "Lambda.Connect",
        "Lambda.Kms",
        "Lambda.NotFound",
        "Lambda.Service",
    ])
});

/// Errors that can be caused either by a single message or by an outage.
static FAULTS: LazyLock<Globs> = LazyLock::new(|| {
    Globs::built_in(&[
        "Http.InvalidResponse",
        "Http.Reset",
        "Http.Timeout",
        "HttpStatus.404",
        "HttpStatus.5??",
        "Lambda.ConnectionLost",
        "Lambda.FunctionError",
        "Lambda.Timeout",
        "Sandbox.Timedout",
        "Timeout",
    ])
});

/// Returns true for an HTTP status that blames the message itself. All other failures may be temporary (a redirect to a
/// maintenance page, a rotated key, a route lost in a deployment), and giving up on them would drain the queue into the
/// final DLQ.
#[must_use]
pub const fn is_permanent_status(status: u16) -> bool {
    let may_pass = matches!(status, 401 | 403..=405 | 407..=409 | 421 | 423..=425 | 429);
    status / 100 == 4 && !may_pass
}

/// Classifies a failed call. Only an error that the policy retries is evidence about the target. Any other error is
/// caused by the message itself.
#[must_use]
pub fn call_outcome(policy: &Policy, error: &HandlerError) -> CallOutcome {
    // Cleaned and truncated as in the record: a name chosen by the target may be as long as its response.
    let name = truncate::clean_text(&error.error_type.name(), truncate::ERROR_TYPE_BYTES_MAX);
    if classify_error(policy, &name, Classification::from_failure_kind(error.kind).known_class())
        != FailureClass::Transient
    {
        return CallOutcome::Answer;
    }
    let retry_after = match error.kind {
        FailureKind::TransientAfter(after) => Some(after),
        FailureKind::Unavailable(after) => after,
        _ => None,
    };
    // A `Retry-After` of zero does not request a delay.
    let retry_after = retry_after.filter(|after| !after.is_zero());
    let is_named = || policy.circuit_breaker.as_ref()?.opens_on.as_ref().map(|globs| globs.matches(&name));
    let is_unavailable = || {
        matches!(error.kind, FailureKind::Unavailable(_))
            || NOT_NOW_ERRORS.matches(&name)
            || is_named() == Some(true)
    };
    let is_unavailable = is_unavailable();
    let is_fault = FAULTS.matches(&name);
    match retry_after {
        _ if RATE_LIMIT_ERRORS.contains(&status_without_code(&name)) => CallOutcome::Refusal(retry_after),
        Some(_) if is_unavailable || is_fault => CallOutcome::Refusal(retry_after),
        Some(after) if name.starts_with("HttpStatus.") => CallOutcome::Later(after),
        None if is_unavailable => CallOutcome::Unavailable,
        None if is_fault => CallOutcome::Fault,
        // A delay from a handler only sets the time of the next attempt; the failure still spends one.
        _ => CallOutcome::Answer,
    }
}

#[cfg(test)]
mod tests {
    use super::CallOutcome::{Answer, Fault, Later, Refusal, Unavailable};
    use super::*;
    use crate::handler::ErrorType;

    fn classify(policy: &str, error: impl std::borrow::Borrow<HandlerError>) -> CallOutcome {
        call_outcome(&Policy::from_json(policy).unwrap(), error.borrow())
    }

    fn outcome_for_name(name: &'static str) -> CallOutcome {
        classify("{}", HandlerError::transient(name, ""))
    }

    fn status_error(status: u16) -> HandlerError {
        HandlerError::transient(ErrorType::HttpStatus(status), "")
    }

    /// Matching a glob with `*` can take time proportional to its length for each character of a name.
    #[test]
    fn names_are_truncated_before_matching() {
        let name = |bytes: usize| ErrorType::FromTarget("a".repeat(bytes) + "b");
        let outcomes = |bytes| {
            let error = HandlerError::transient(name(bytes), "");
            (
                classify(r#"{"circuit_breaker":{"opens_on":["*b"]}}"#, error.clone()),
                classify(r#"{"retryable":["*b"],"circuit_breaker":{"opens_on":["*"]}}"#, error),
            )
        };
        assert_eq!(outcomes(127), (Unavailable, Unavailable));
        assert_eq!(outcomes(128), (Answer, Answer));
    }

    /// docs/handlers.md has the same numbers; a docs test compares them.
    #[test]
    fn an_http_status_determines_the_budget_it_spends() {
        for not_now in [300, 302, 308, 401, 403, 405, 407, 502, 503, 504, 520, 521, 529, 530] {
            assert_eq!(classify("{}", status_error(not_now)), Unavailable, "{not_now}");
        }
        for fault in [404, 500, 501, 505, 511, 599] {
            assert_eq!(classify("{}", status_error(fault)), Fault, "{fault}");
        }
        for own in [100, 408, 409, 421, 425, 600] {
            assert_eq!(classify("{}", status_error(own)), Answer, "{own}");
        }
        assert_eq!(classify("{}", status_error(429)), Refusal(None));
        assert_eq!(classify("{}", HandlerError::permanent(ErrorType::HttpStatus(503), "")), Answer);
    }

    #[test]
    fn connection_failures_count_as_unavailable_and_bad_responses_as_faults() {
        let no_connection = ["Connect", "ConnectTimeout", "Dns", "Proxy", "Refused", "Tls"]
            .map(|what| format!("Http.{what}"));
        for not_now in no_connection {
            let error = HandlerError::transient(ErrorType::FromTarget(not_now.clone()), "");
            assert_eq!(classify("{}", error), Unavailable, "{not_now}");
        }
        for not_now in ["Http.NotSigned", "Lambda.AccessDenied", "Lambda.NotFound", "Lambda.Kms"] {
            assert_eq!(outcome_for_name(not_now), Unavailable, "{not_now}");
        }
        for fault in [
            "Http.InvalidResponse",
            "Http.Reset",
            "Http.Timeout",
            "Timeout",
            "Lambda.FunctionError",
            "Sandbox.Timedout",
        ] {
            assert_eq!(outcome_for_name(fault), Fault, "{fault}");
        }
        assert_eq!(outcome_for_name("Lambda.Throttled"), Refusal(None));
        assert_eq!(outcome_for_name("OrderNotFound"), Answer);
        assert_eq!(outcome_for_name("Panic"), Answer);
    }

    #[test]
    fn a_retry_after_is_a_refusal_if_the_error_is_about_the_target() {
        let retry_after = Duration::from_secs(7);
        for error in
            [status_error(503), status_error(429), status_error(500), HandlerError::unavailable("Db", "")]
        {
            assert_eq!(classify("{}", error.retry_after(retry_after)), Refusal(Some(retry_after)));
        }
        for about_the_message in [400, 408, 409, 413, 422, 423, 425] {
            let error = status_error(about_the_message).retry_after(retry_after);
            assert_eq!(classify("{}", error), Later(retry_after), "{about_the_message}");
        }
        assert_eq!(classify("{}", HandlerError::transient("Db", "").retry_after(retry_after)), Answer);
        assert_eq!(classify("{}", HandlerError::unavailable("Db", "")), Unavailable);
    }

    /// The code in the target's response affects only the recorded cause.
    #[test]
    fn a_status_with_a_code_counts_as_the_plain_status() {
        for code in [302, 400, 404, 422, 429, 500, 503] {
            let problem_error = |error: HandlerError| HandlerError {
                error_type: ErrorType::HttpProblem(code, "no_stock".to_owned()),
                ..error
            };
            assert_eq!(
                classify("{}", problem_error(status_error(code))),
                classify("{}", status_error(code)),
                "{code}"
            );
            let later = status_error(code).retry_after(Duration::from_secs(7));
            assert_eq!(classify("{}", problem_error(later.clone())), classify("{}", later), "{code}");
        }
        let lists = r#"{"non_retryable":["HttpStatus.503:no_*"]}"#;
        let problem_error =
            |code: &str| HandlerError::transient(ErrorType::HttpProblem(503, code.to_owned()), "");
        assert_eq!(classify(lists, problem_error("no_stock")), Answer);
        assert_eq!(classify(lists, problem_error("busy")), Unavailable);
        assert_eq!(classify(r#"{"non_retryable":["HttpStatus.50?"]}"#, problem_error("busy")), Answer);
    }

    #[test]
    fn a_retry_after_of_zero_changes_nothing() {
        for (given, expected) in [(409, Answer), (500, Fault), (503, Unavailable), (429, Refusal(None))] {
            assert_eq!(classify("{}", status_error(given).retry_after(Duration::ZERO)), expected, "{given}");
        }
    }

    #[test]
    fn the_policys_lists_take_precedence() {
        assert_eq!(classify(r#"{"non_retryable":["HttpStatus.503"]}"#, status_error(503)), Answer);
        let named = r#"{"circuit_breaker":{"opens_on":["Db","Timeout"]}}"#;
        assert_eq!(classify(named, HandlerError::transient("Db", "")), Unavailable);
        assert_eq!(classify(named, HandlerError::transient("Timeout", "")), Unavailable);
        assert_eq!(classify(named, status_error(503)), Unavailable, "the list adds to the built-in one");
        assert_eq!(classify(named, status_error(500)), Fault);
    }
}
