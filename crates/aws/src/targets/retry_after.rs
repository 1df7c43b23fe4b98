//! `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date.

use std::time::Duration;

use redeliver_core::message::Timestamp;

/// Longer than any possible delay, but safe for arithmetic.
const LONGEST: Duration = Duration::from_secs(14 * 24 * 3600);

/// The delay of a header's value, zero for a past date; `None` if it is invalid.
pub(super) fn parse(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    let delay = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Too many digits mean a very long time.
        value.parse().map_or(LONGEST, Duration::from_secs)
    } else {
        let date = Timestamp::from(httpdate::parse_http_date(value).ok()?);
        (date - now).to_std().unwrap_or(Duration::ZERO)
    };
    Some(delay.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read() {
        let now = Timestamp::from_timestamp(784_111_777 - 90, 0).unwrap();
        assert_eq!(parse("120", now), Some(Duration::from_secs(120)));
        assert_eq!(parse(" 0 ", now), Some(Duration::ZERO));
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(90)));
        assert_eq!(parse("Sun, 06 Nov 1988 08:49:37 GMT", now), Some(Duration::ZERO));
        assert_eq!(parse("99999999999999999999999", now), Some(LONGEST));
        for unreadable in ["", "soon", "-5", "1.5", "+3"] {
            assert_eq!(parse(unreadable, now), None, "{unreadable}");
        }
    }
}
