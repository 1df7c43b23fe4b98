//! The delay that a response requests with `Retry-After`, or with a header that APIs send instead.

use std::time::Duration;

use redeliver_core::message::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::targets::retry_after::{LONGEST, parse_retry_after};

/// The delay that a response requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedWait {
    Nothing,
    After(Duration),
    /// A value that cannot be parsed.
    Unreadable,
}

/// Headers with the delay in milliseconds, as sent by OpenAI and Azure.
const IN_MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];
/// Pairs of headers: the number of remaining calls in a window, and the end of the window. The first is from older
/// drafts of RateLimit, the second from GitHub and many others, the third from Twitter.
const WINDOWS: [(&str, &str); 3] = [
    ("ratelimit-remaining", "ratelimit-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-rate-limit-remaining", "x-rate-limit-reset"),
];

/// Returns the delay that a response with this status requests. `Retry-After` takes precedence.
pub(super) fn requested_wait(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> RequestedWait {
    let retry_after = longest_value(headers, RETRY_AFTER.as_str(), |value| parse_retry_after(value, now));
    let in_milliseconds = IN_MILLISECONDS.map(|name| longest_value(headers, name, parse_milliseconds));
    let windows = WINDOWS.map(|(remaining, reset)| match is_used_up(status, headers, remaining) {
        true => longest_value(headers, reset, |value| parse_retry_after(value, now)),
        false => RequestedWait::Nothing,
    });
    let all = [retry_after].into_iter().chain(in_milliseconds).chain(windows);
    all.reduce(RequestedWait::or).unwrap_or(RequestedWait::Nothing)
}

impl RequestedWait {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::After(_), _) | (_, Self::Nothing) => self,
            _ => other,
        }
    }
}

/// True if the next call should wait for the end of the window. Responses contain these headers even if the call was
/// refused for another reason, so a window with remaining calls is ignored. GitHub responds with 403 if no calls
/// remain.
fn is_used_up(status: StatusCode, headers: &HeaderMap, remaining: &str) -> bool {
    let remaining = headers.get(remaining).map(|value| value.as_bytes().trim_ascii());
    match status {
        StatusCode::TOO_MANY_REQUESTS => remaining.is_none_or(|remaining| remaining == b"0"),
        StatusCode::FORBIDDEN => remaining == Some(b"0"),
        _ => false,
    }
}

/// Returns the longest delay among a header's values.
fn longest_value(headers: &HeaderMap, name: &str, parse: impl Fn(&str) -> Option<Duration>) -> RequestedWait {
    let values = headers.get_all(name);
    if values.iter().next().is_none() {
        return RequestedWait::Nothing;
    }
    let delays = values.iter().filter_map(|value| parse(value.to_str().ok()?));
    delays.max().map_or(RequestedWait::Unreadable, RequestedWait::After)
}

fn parse_milliseconds(value: &str) -> Option<Duration> {
    let milliseconds: f64 = value.trim().parse().ok()?;
    let delay = Duration::try_from_secs_f64(milliseconds / 1000.0).ok()?;
    Some(delay.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time 90 seconds before the timestamp in the tests.
    fn now() -> Timestamp {
        Timestamp::from_timestamp(784_111_777 - 90, 0).unwrap()
    }

    fn response_wait(status: u16, headers: &[(&'static str, &'static str)]) -> RequestedWait {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        requested_wait(StatusCode::from_u16(status).unwrap(), &map, now())
    }

    fn requested_seconds(seconds: u64) -> RequestedWait {
        RequestedWait::After(Duration::from_secs(seconds))
    }

    #[test]
    fn the_first_header_that_can_be_parsed_counts() {
        assert_eq!(response_wait(503, &[]), RequestedWait::Nothing);
        assert_eq!(response_wait(503, &[("retry-after", "soon")]), RequestedWait::Unreadable);
        assert_eq!(
            response_wait(503, &[("retry-after", "60"), ("retry-after", "120")]),
            requested_seconds(120)
        );
        assert_eq!(
            response_wait(503, &[("retry-after", "1"), ("retry-after-ms", "500")]),
            requested_seconds(1)
        );
        assert_eq!(
            response_wait(503, &[("retry-after", "soon"), ("retry-after-ms", "2000.0")]),
            requested_seconds(2)
        );
        assert_eq!(response_wait(429, &[("x-ms-retry-after-ms", "3000")]), requested_seconds(3));
        for unreadable in ["1s", "-1", "NaN", "inf", ""] {
            assert_eq!(
                response_wait(503, &[("retry-after-ms", unreadable)]),
                RequestedWait::Unreadable,
                "{unreadable}"
            );
        }
        assert_eq!(response_wait(503, &[("retry-after-ms", "1e18")]), RequestedWait::After(LONGEST));
        assert_eq!(
            response_wait(429, &[("retry-after", "5"), ("x-ratelimit-reset", "60")]),
            requested_seconds(5)
        );
    }

    /// Responses contain the end of the window even if a call was refused for another reason.
    #[test]
    fn the_end_of_a_window_counts_only_if_no_calls_remain() {
        for (remaining, reset) in WINDOWS {
            for (status, headers, expected) in [
                (429, &[(remaining, "0"), (reset, "60")][..], requested_seconds(60)),
                (429, &[(reset, "784111777")], requested_seconds(90)),
                (429, &[(remaining, "17"), (reset, "3000")], RequestedWait::Nothing),
                (429, &[(remaining, "0"), (reset, "soon")], RequestedWait::Unreadable),
                (403, &[(remaining, "0"), (reset, "60")], requested_seconds(60)),
                (403, &[(reset, "60")], RequestedWait::Nothing),
                (503, &[(remaining, "0"), (reset, "60")], RequestedWait::Nothing),
                (422, &[(remaining, "0"), (reset, "60")], RequestedWait::Nothing),
            ] {
                assert_eq!(response_wait(status, headers), expected, "{status} {headers:?}");
            }
        }
    }
}
