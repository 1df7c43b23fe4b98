//! Parses `Retry-After` (RFC 9110, section 10.2.3) in the forms that servers send in practice. docs/policy.md has the
//! table, docs/decisions.md the rationale.

use std::time::Duration;

use redeliver_core::deliver::time_until;
use redeliver_core::message::Timestamp;

/// Longer than any possible delay, but safe for arithmetic.
pub(super) const LONGEST: Duration = Duration::from_secs(14 * 24 * 3600);
/// A number above this is a Unix timestamp.
const YEAR: u64 = 365 * 24 * 3600;
/// A number above this is a timestamp in milliseconds; in seconds, it would be in the year 5138.
const MILLISECONDS: u64 = 100_000_000_000;

/// Returns the delay, which is zero for a past date, or `None` if the value cannot be parsed. If it has several
/// numbers, the largest one applies.
pub(super) fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim().trim_matches('"').trim();
    let delay = match parse_date(value) {
        Some(date) => time_until(now, date),
        None => value
            .split(',')
            .try_fold(Duration::ZERO, |longest, number| Some(longest.max(parse_seconds(number, now)?)))?,
    };
    Some(delay.min(LONGEST))
}

/// Parses an HTTP date, which may have `UTC` or an offset instead of `GMT`, or an RFC 3339 date.
fn parse_date(value: &str) -> Option<Timestamp> {
    use chrono::DateTime;
    let gmt = value.strip_suffix(" UTC").map(|date| format!("{date} GMT"));
    let date = httpdate::parse_http_date(gmt.as_deref().unwrap_or(value)).ok().map(Timestamp::from);
    let other = || DateTime::parse_from_rfc2822(value).or_else(|_| DateTime::parse_from_rfc3339(value)).ok();
    date.or_else(|| Some(other()?.to_utc()))
}

/// Parses a number of seconds, such as `120`, `2.5` or `30s`, or a Unix timestamp.
fn parse_seconds(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    let (whole, milliseconds) = parse_decimal(value.strip_suffix('s').unwrap_or(value))?;
    let moment = match whole {
        ..=YEAR => return Some(Duration::from_secs(whole).saturating_add(milliseconds)),
        MILLISECONDS.. => whole / 1000,
        _ => whole,
    };
    let moment = i64::try_from(moment).ok().and_then(|moment| Timestamp::from_timestamp(moment, 0));
    Some(moment.map_or(LONGEST, |moment| time_until(now, moment)))
}

/// Splits an unsigned decimal number into its whole part and its fraction in milliseconds. A whole part that overflows
/// becomes `u64::MAX`.
fn parse_decimal(value: &str) -> Option<(u64, Duration)> {
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

    /// 90 seconds before the date in RFC 9110's examples.
    const NOW: i64 = 784_111_777 - 90;

    fn now() -> Timestamp {
        Timestamp::from_timestamp(NOW, 0).unwrap()
    }

    fn delay_milliseconds(value: &str) -> Option<u128> {
        parse_retry_after(value, now()).map(|delay| delay.as_millis())
    }

    #[test]
    fn seconds_are_parsed_in_all_common_forms() {
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
            assert_eq!(delay_milliseconds(value), Some(milliseconds), "{value}");
        }
    }

    #[test]
    fn dates_are_parsed_in_all_common_forms_and_time_zones() {
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
            assert_eq!(delay_milliseconds(value), Some(90_000), "{value}");
        }
        assert_eq!(delay_milliseconds("Sun, 06 Nov 1988 08:49:37 +0000"), Some(0));
    }

    #[test]
    fn a_number_of_seconds_over_a_year_is_a_timestamp() {
        for value in ["784111777", "784111777.0", "784111777000"] {
            assert_eq!(delay_milliseconds(value), Some(90_000), "{value}");
        }
        assert_eq!(delay_milliseconds("31536001"), Some(0), "long ago");
        for far in ["99999999999", "99999999999999999999999"] {
            assert_eq!(parse_retry_after(far, now()), Some(LONGEST), "{far}");
        }
    }

    #[test]
    fn any_other_value_cannot_be_parsed() {
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
            assert_eq!(parse_retry_after(value, now()), None, "{value}");
        }
    }
}
