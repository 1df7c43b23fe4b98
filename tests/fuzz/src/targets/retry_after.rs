//! `Retry-After`: the parsed delay is the header's within limits, and so is the delay of the re-send.

use std::time::Duration;

use redeliver_core::decide::backoff::{Key, target_delay};
use redeliver_core::failure::Answer;
use redeliver_core::handler::FailureKind;
use redeliver_core::limits::RetryDelay;
use redeliver_core::message::Timestamp;
use uuid::Uuid;

use crate::aws::retry_after;
use crate::messages::moment;

const LONGEST: Duration = Duration::from_secs(14 * 24 * 3600);

pub(super) fn check(value: &str) {
    let of_1994 = Timestamp::from_timestamp(784_111_687, 500_000_000).expect("a moment of the past century");
    for now in [of_1994, moment(), Timestamp::UNIX_EPOCH, Timestamp::MIN_UTC, Timestamp::MAX_UTC] {
        let asked = retry_after(value, now);
        let text = value.trim();
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let date = httpdate::parse_http_date(text).ok().filter(|_| !digits).map(Timestamp::from);
        let expected = match date {
            _ if digits => Some(text.parse().map_or(LONGEST, Duration::from_secs).min(LONGEST)),
            Some(date) if date <= now => Some(Duration::ZERO),
            Some(date) => (date - now).to_std().ok().map(|delay| delay.min(LONGEST)),
            None => None,
        };
        assert_eq!(asked, expected, "{value:?} at {now}");
        if let Some(asked) = asked {
            check_delay(asked);
        }
    }
}

/// The delay is never shorter, except for SQS's limit of 900 s, and at most a tenth longer.
fn check_delay(asked: Duration) {
    let answer = Answer::of(FailureKind::TransientAfter(asked));
    let seconds = answer.retry_after_seconds.expect("the target has asked");
    let key = Key { message_id: Uuid::nil(), generation: 0, attempt: 1 };
    let delay = Duration::from_secs(target_delay(seconds, RetryDelay::SHORT_MAX, key).get().into());
    let most = Duration::from_secs(900);
    assert!(delay >= asked.min(most) && delay <= most, "{delay:?} for {asked:?}");
    assert!(delay <= (asked + Duration::from_secs(1)).mul_f64(1.1), "{delay:?} for {asked:?}");
}
