//! Finds the parts missing from a string that is not a `date-time` (RFC 3339, section 5.6).

const NO_DATE_TIME: &str = "is not a date-time, such as 2030-01-01T00:00:00Z";

/// Returns the rule violated by a string that the validator rejected as a `date-time`. The rule does not contain the
/// string.
pub(super) fn violated_rule(text: &str) -> String {
    let is_number = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.'));
    if is_number {
        return "is a number: write the time as 2030-01-01T00:00:00Z".to_owned();
    }
    let Some(missing) = missing_parts(text.as_bytes()) else { return NO_DATE_TIME.to_owned() };
    if missing.is_empty() { "is not a time that exists".to_owned() } else { missing.join("; ") }
}

/// Lists the missing or misspelled parts, from left to right; `None` if the string does not resemble a time.
fn missing_parts(text: &[u8]) -> Option<Vec<&'static str>> {
    let mut missing = Vec::new();
    let rest = strip_shape(text, "0000-00-00")?;
    let rest = match rest.split_first() {
        None => return Some(vec!["has no time of day: add T00:00:00Z"]),
        Some((b'T' | b't', rest)) => rest,
        Some((b' ', rest)) => {
            missing.push("has a space before its time of day: write T");
            rest
        }
        Some(_) => return None,
    };
    let minutes = strip_shape(rest, "00:00")?;
    let rest = strip_shape(minutes, ":00").unwrap_or_else(|| {
        missing.push("has no seconds: add :00");
        minutes
    });
    let rest = match rest.split_first() {
        Some((b'.' | b',', fraction)) => {
            if rest[0] == b',' {
                missing.push("has a comma in its seconds: write a point");
            }
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            &fraction[digits..]
        }
        _ => rest,
    };
    let zone = rest.trim_ascii_start();
    if zone.len() < rest.len() && !zone.is_empty() {
        missing.push("has a space before its time zone: remove it");
    }
    missing.extend(match zone {
        [] => Some("has no time zone: add Z or +00:00"),
        [b'Z' | b'z'] => None,
        [b'+' | b'-', offset @ ..] => match strip_shape(offset, "00:00") {
            Some([]) => None,
            Some(_) => Some("has more text after its time zone: remove it"),
            None if offset.len() == 4 && strip_shape(offset, "0000").is_some() => {
                Some("has no colon in its time zone: write +00:00")
            }
            None if offset.len() == 2 && strip_shape(offset, "00").is_some() => {
                Some("has no minutes in its time zone: write +00:00")
            }
            None => return None,
        },
        name if name.iter().all(u8::is_ascii_alphabetic) => {
            Some("has a time zone by name: write Z or +00:00")
        }
        _ => return None,
    });
    Some(missing)
}

/// Strips a leading shape, in which `0` matches any digit.
fn strip_shape<'t>(text: &'t [u8], shape: &str) -> Option<&'t [u8]> {
    let (start, rest) = text.split_at_checked(shape.len())?;
    let fits = |(byte, shape): (&u8, u8)| if shape == b'0' { byte.is_ascii_digit() } else { *byte == shape };
    start.iter().zip(shape.bytes()).all(fits).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule shows the producer which part to change.
    #[test]
    fn the_missing_parts_of_an_incomplete_time_are_named() {
        for (text, rule) in [
            ("2030-01-01T00:00:00", "has no time zone: add Z or +00:00"),
            ("2030-01-01T00:00:00.123456", "has no time zone: add Z or +00:00"),
            ("2030-01-01T00:00:00+0000", "has no colon in its time zone: write +00:00"),
            ("2030-01-01T00:00:00-05", "has no minutes in its time zone: write +00:00"),
            ("2030-01-01T00:00:00UTC", "has a time zone by name: write Z or +00:00"),
            ("2030-01-01T00:00:00 Z", "has a space before its time zone: remove it"),
            ("2030-01-01T00:00:00+01:00[Europe/Berlin]", "has more text after its time zone: remove it"),
            ("2030-01-01 00:00:00+00:00", "has a space before its time of day: write T"),
            (
                "2030-01-01 00:00:00",
                "has a space before its time of day: write T; has no time zone: add Z or +00:00",
            ),
            ("2030-01-01T00:00Z", "has no seconds: add :00"),
            ("2030-01-01T00:00:00,5Z", "has a comma in its seconds: write a point"),
            ("2030-01-01", "has no time of day: add T00:00:00Z"),
            ("1893456000", "is a number: write the time as 2030-01-01T00:00:00Z"),
            ("1893456000.25", "is a number: write the time as 2030-01-01T00:00:00Z"),
            ("2030-13-01T00:00:00Z", "is not a time that exists"),
            ("20300101T000000Z", NO_DATE_TIME),
            ("Tue, 01 Jan 2030 00:00:00 GMT", NO_DATE_TIME),
            ("tomorrow", NO_DATE_TIME),
            ("2030-01-01T€", NO_DATE_TIME),
            ("", NO_DATE_TIME),
        ] {
            assert_eq!(violated_rule(text), rule, "{text}");
        }
    }
}
