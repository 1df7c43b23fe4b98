//! `Retry-After`: the parsed delay matches the header within limits, and so does the delay of the re-send.

use std::time::Duration;

use redeliver_core::decide::backoff::{JitterKey, retry_after_delay};
use redeliver_core::failure::Classification;
use redeliver_core::handler::FailureKind;
use redeliver_core::limits::RetryDelay;
use redeliver_core::message::Timestamp;
use uuid::Uuid;

use crate::aws::retry_after;
use crate::messages::fixed_now;

const LONGEST_DELAY: Duration = Duration::from_secs(14 * 24 * 3600);

/// A year in seconds. Larger numbers are Unix times.
const YEAR: u64 = 365 * 24 * 3600;

pub(super) fn check(value: &str) {
    let year_1994 =
        Timestamp::from_timestamp(784_111_687, 500_000_000).expect("a moment of the past century");
    for now in [year_1994, fixed_now(), Timestamp::UNIX_EPOCH, Timestamp::MIN_UTC, Timestamp::MAX_UTC] {
        let requested = retry_after(value, now);
        if let Some(expected) = standard_delay(value.trim(), now) {
            assert_eq!(requested, Some(expected), "{value:?} at {now}");
        }
        let quoted = format!(" \"{value}\" ");
        if !value.contains('"') {
            assert_eq!(requested, retry_after(&quoted, now), "{quoted:?} at {now}");
        }
        if value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b's' | b' ' | b',')) {
            let parts: Option<Vec<_>> = value.split(',').map(|part| retry_after(part, now)).collect();
            assert_eq!(requested, parts.and_then(|parts| parts.into_iter().max()), "{value:?} at {now}");
        }
        if let Some(requested) = requested {
            assert!(value.bytes().any(|byte| byte.is_ascii_digit()), "{value:?} at {now}");
            check_delay(requested);
        }
    }
}

/// Returns the delay requested by a value in RFC 9110's syntax or by a Unix time.
fn standard_delay(value: &str, now: Timestamp) -> Option<Duration> {
    let until = |date: Timestamp| (date - now).to_std().unwrap_or_default();
    let delay = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        match value.parse().unwrap_or(u64::MAX) {
            seconds @ ..=YEAR => Duration::from_secs(seconds),
            seconds @ ..100_000_000_000 => {
                until(Timestamp::from_timestamp(seconds.cast_signed(), 0).expect("a year before 5139"))
            }
            milliseconds => i64::try_from(milliseconds / 1000)
                .ok()
                .and_then(|seconds| Timestamp::from_timestamp(seconds, 0))
                .map_or(LONGEST_DELAY, until),
        }
    } else {
        until(httpdate::parse_http_date(value).ok()?.into())
    };
    Some(delay.min(LONGEST_DELAY))
}

/// Checks that a re-send's delay is never shorter than requested (except for SQS's limit of 900 s) and at most a tenth
/// longer.
fn check_delay(requested: Duration) {
    let answer = Classification::from_failure_kind(FailureKind::TransientAfter(requested));
    let seconds = answer.retry_after_seconds.expect("the target requested a delay");
    let key = JitterKey { message_id: Uuid::nil(), generation: 0, attempt: 1 };
    let delay = Duration::from_secs(retry_after_delay(seconds, RetryDelay::SHORT_MAX, key).get().into());
    let most = Duration::from_secs(900);
    assert!(delay >= requested.min(most) && delay <= most, "{delay:?} for {requested:?}");
    assert!(delay <= (requested + Duration::from_secs(1)).mul_f64(1.1), "{delay:?} for {requested:?}");
}
