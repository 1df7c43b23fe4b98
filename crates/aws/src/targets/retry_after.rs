//! When a response asks to be called again: `Retry-After` (RFC 9110, section 10.2.3) as people write it, and the headers
//! that APIs send instead. docs/policy.md has the table, docs/decisions.md the reasons.

use std::time::Duration;

use redeliver_core::deliver::until;
use redeliver_core::message::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Longer than any possible delay, but safe for arithmetic.
const LONGEST: Duration = Duration::from_secs(14 * 24 * 3600);
/// A larger number is a moment in Unix time.
const YEAR: u64 = 365 * 24 * 3600;
/// A larger number is a moment in milliseconds: as seconds it is in the year 5138.
const MILLISECONDS: u64 = 100_000_000_000;

/// What a response asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    After(Duration),
    /// A time that cannot be read.
    Unreadable,
}

/// Headers that have the same wait in milliseconds: OpenAI's, and Azure's.
const IN_MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];
/// How many calls a window has left, and when it ends: the older drafts of RateLimit, GitHub and many others, Twitter.
const WINDOWS: [(&str, &str); 3] = [
    ("ratelimit-remaining", "ratelimit-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-rate-limit-remaining", "x-rate-limit-reset"),
];

/// What a response with this status asks for. `Retry-After` comes first.
pub(super) fn asked(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Asked {
    let retry_after = longest(headers, RETRY_AFTER.as_str(), |value| parse(value, now));
    let in_milliseconds = IN_MILLISECONDS.map(|name| longest(headers, name, milliseconds));
    let windows = WINDOWS.map(|(remaining, reset)| match is_used_up(status, headers, remaining) {
        true => longest(headers, reset, |value| parse(value, now)),
        false => Asked::Nothing,
    });
    let all = [retry_after].into_iter().chain(in_milliseconds).chain(windows);
    all.reduce(Asked::or).unwrap_or(Asked::Nothing)
}

impl Asked {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::After(_), _) | (_, Self::Nothing) => self,
            _ => other,
        }
    }
}

/// True if the end of a window is the time to call again. Responses have these headers whether or not the window is the
/// reason of the refusal, so a window with calls left says nothing. GitHub answers 403 when none is left.
fn is_used_up(status: StatusCode, headers: &HeaderMap, remaining: &str) -> bool {
    let remaining = headers.get(remaining).map(|value| value.as_bytes().trim_ascii());
    match status {
        StatusCode::TOO_MANY_REQUESTS => remaining.is_none_or(|remaining| remaining == b"0"),
        StatusCode::FORBIDDEN => remaining == Some(b"0"),
        _ => false,
    }
}

/// The longest of a header's values.
fn longest(headers: &HeaderMap, name: &str, parse: impl Fn(&str) -> Option<Duration>) -> Asked {
    let values = headers.get_all(name);
    if values.iter().next().is_none() {
        return Asked::Nothing;
    }
    let delays = values.iter().filter_map(|value| parse(value.to_str().ok()?));
    delays.max().map_or(Asked::Unreadable, Asked::After)
}

/// The delay of a `Retry-After`, zero for a past date; `None` if it cannot be read. Of several numbers the largest.
pub(super) fn parse(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim().trim_matches('"').trim();
    let delay = match date(value) {
        Some(date) => until(now, date),
        None => value
            .split(',')
            .map(|number| seconds(number, now))
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .max()?,
    };
    Some(delay.min(LONGEST))
}

/// A date of HTTP, with `UTC` or an offset in place of `GMT`, or of RFC 3339.
fn date(value: &str) -> Option<Timestamp> {
    use chrono::DateTime;
    let gmt = value.strip_suffix(" UTC").map(|date| format!("{date} GMT"));
    let date = httpdate::parse_http_date(gmt.as_deref().unwrap_or(value)).ok().map(Timestamp::from);
    let other = || DateTime::parse_from_rfc2822(value).or_else(|_| DateTime::parse_from_rfc3339(value)).ok();
    date.or_else(|| Some(other()?.to_utc()))
}

/// A number of seconds, or a moment in Unix time: `120`, `2.5`, `30s`.
fn seconds(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    let (whole, milliseconds) = decimal(value.strip_suffix('s').unwrap_or(value))?;
    let moment = match whole {
        ..=YEAR => return Some(Duration::from_secs(whole).saturating_add(milliseconds)),
        MILLISECONDS.. => whole / 1000,
        _ => whole,
    };
    let moment = i64::try_from(moment).ok().and_then(|moment| Timestamp::from_timestamp(moment, 0));
    Some(moment.map_or(LONGEST, |moment| until(now, moment)))
}

fn milliseconds(value: &str) -> Option<Duration> {
    let (whole, _) = decimal(value.trim())?;
    Some(Duration::from_millis(whole).min(LONGEST))
}

/// A decimal number without a sign: what is before its point, and after it in thousandths. Too many digits make it the
/// largest one.
fn decimal(value: &str) -> Option<(u64, Duration)> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let thousandths: String = fraction.chars().chain("00".chars()).take(3).collect();
    let thousandths = thousandths.parse().map_or(Duration::ZERO, Duration::from_millis);
    Some((whole.parse().unwrap_or(u64::MAX), thousandths))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 90 seconds before the date of RFC 9110's examples.
    const NOW: i64 = 784_111_777 - 90;

    fn now() -> Timestamp {
        Timestamp::from_timestamp(NOW, 0).unwrap()
    }

    fn milliseconds_of(value: &str) -> Option<u128> {
        parse(value, now()).map(|delay| delay.as_millis())
    }

    #[test]
    fn numbers_of_seconds_are_read_as_people_write_them() {
        for (value, milliseconds) in [
            ("120", 120_000),
            (" 0 ", 0),
            ("120.0", 120_000),
            ("2.5", 2_500),
            ("0.0005", 0),
            ("1.2345", 1_234),
            ("\"120\"", 120_000),
            ("30s", 30_000),
            ("120, 60", 120_000),
            ("60,120.5", 120_500),
            ("31536000", LONGEST.as_millis()),
        ] {
            assert_eq!(milliseconds_of(value), Some(milliseconds), "{value}");
        }
    }

    #[test]
    fn a_date_may_name_its_zone_in_any_way() {
        for value in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 09:49:37 +0100",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "06 Nov 1994 08:49:37 GMT",
            "1994-11-06T08:49:37Z",
            "1994-11-06T09:49:37.000+01:00",
        ] {
            assert_eq!(milliseconds_of(value), Some(90_000), "{value}");
        }
        assert_eq!(milliseconds_of("Sun, 06 Nov 1988 08:49:37 +0000"), Some(0));
    }

    #[test]
    fn a_number_above_a_year_is_a_moment() {
        for value in ["784111777", "784111777.0", "784111777000"] {
            assert_eq!(milliseconds_of(value), Some(90_000), "{value}");
        }
        assert_eq!(milliseconds_of("31536001"), Some(0), "long ago");
        for far in ["99999999999", "99999999999999999999999"] {
            assert_eq!(parse(far, now()), Some(LONGEST), "{far}");
        }
    }

    #[test]
    fn anything_else_is_not_guessed() {
        for value in [
            "",
            "soon",
            "-5",
            "+3",
            "1e3",
            ".",
            "5.",
            ".5",
            "1.2.3",
            "120, soon",
            ",",
            "0x10",
            "1994-11-06T08:49:37",
        ] {
            assert_eq!(parse(value, now()), None, "{value}");
        }
    }

    fn asked_by(status: u16, headers: &[(&'static str, &'static str)]) -> Asked {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        asked(StatusCode::from_u16(status).unwrap(), &map, now())
    }

    fn after(seconds: u64) -> Asked {
        Asked::After(Duration::from_secs(seconds))
    }

    #[test]
    fn of_several_headers_the_first_readable_one_counts() {
        assert_eq!(asked_by(503, &[]), Asked::Nothing);
        assert_eq!(asked_by(503, &[("retry-after", "soon")]), Asked::Unreadable);
        assert_eq!(asked_by(503, &[("retry-after", "60"), ("retry-after", "120")]), after(120));
        assert_eq!(asked_by(503, &[("retry-after", "1"), ("retry-after-ms", "500")]), after(1));
        assert_eq!(asked_by(503, &[("retry-after", "soon"), ("retry-after-ms", "2000.7")]), after(2));
        assert_eq!(asked_by(429, &[("x-ms-retry-after-ms", "3000")]), after(3));
        assert_eq!(asked_by(503, &[("retry-after-ms", "1s")]), Asked::Unreadable);
        assert_eq!(asked_by(429, &[("retry-after", "5"), ("x-ratelimit-reset", "60")]), after(5));
    }

    /// A window's end is on every response, also if the refusal has another reason.
    #[test]
    fn the_end_of_a_window_counts_only_if_no_call_is_left_in_it() {
        for (remaining, reset) in WINDOWS {
            for (status, headers, expected) in [
                (429, &[(remaining, "0"), (reset, "60")][..], after(60)),
                (429, &[(reset, "784111777")], after(90)),
                (429, &[(remaining, "17"), (reset, "3000")], Asked::Nothing),
                (429, &[(remaining, "0"), (reset, "soon")], Asked::Unreadable),
                (403, &[(remaining, "0"), (reset, "60")], after(60)),
                (403, &[(reset, "60")], Asked::Nothing),
                (503, &[(remaining, "0"), (reset, "60")], Asked::Nothing),
                (422, &[(remaining, "0"), (reset, "60")], Asked::Nothing),
            ] {
                assert_eq!(asked_by(status, headers), expected, "{status} {headers:?}");
            }
        }
    }
}
