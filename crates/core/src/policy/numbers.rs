//! Parses the policy's numbers exactly as written: 5.0 and 5e0 are the integer 5, as in JSON Schema, and a number that
//! is within a limit only after rounding is refused.

use std::time::Duration;

use redeliver_json_schema::Decimal;
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Number;

use crate::limits::RetryDelay;

/// Parses an integer into a field of type `T`, which may be an `Option`.
pub(super) fn parse_integer<'de, D: Deserializer<'de>, T: From<u32>, const MIN: u32, const MAX: u32>(
    from: D,
) -> Result<T, D::Error> {
    let number = Number::deserialize(from)?;
    if !Decimal::from_number(&number).is_integer() {
        return Err(D::Error::custom("not an integer"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an integer from MIN to MAX")]
    check_range(&number, MIN.into(), MAX.into()).map(|float| T::from(float as u32))
}

pub(super) fn parse_milliseconds<'de, D: Deserializer<'de>, const MAX: u32>(
    from: D,
) -> Result<Duration, D::Error> {
    parse_integer::<_, u32, 0, MAX>(from).map(|milliseconds| Duration::from_millis(milliseconds.into()))
}

pub(super) fn parse_seconds<'de, D: Deserializer<'de>, const MIN: u32, const MAX: u32>(
    from: D,
) -> Result<Duration, D::Error> {
    parse_integer::<_, u32, MIN, MAX>(from).map(|seconds| Duration::from_secs(seconds.into()))
}

pub(super) fn parse_nonzero_delay<'de, D: Deserializer<'de>>(from: D) -> Result<RetryDelay, D::Error> {
    let delay = RetryDelay::deserialize(from)?;
    if delay == RetryDelay::ZERO { Err(D::Error::custom("zero")) } else { Ok(delay) }
}

/// Parses the rate of an exponential backoff.
pub(super) fn parse_rate<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    check_range(&Number::deserialize(from)?, 1.0, 100.0)
}

impl<'de> Deserialize<'de> for RetryDelay {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parse_integer::<_, u32, 0, 43_200>(from).map(|seconds| Self::saturating(seconds.into()))
    }
}

/// Compares decimal digits, since 0.00999999999999999999 equals 0.01 as a float.
fn check_range<E: Error>(number: &Number, min: f64, max: f64) -> Result<f64, E> {
    let limits = [min, max].map(|limit| Number::from_f64(limit).ok_or_else(|| E::custom("no limit")));
    let [min, max] = limits;
    let (min, max) = (min?, max?);
    let is_within =
        (Decimal::from_number(&min)..=Decimal::from_number(&max)).contains(&Decimal::from_number(number));
    number.as_f64().filter(|_| is_within).ok_or_else(|| E::custom("out of range"))
}
