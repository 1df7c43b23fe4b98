//! Exact JSON numbers with any number of digits and any exponent. All operations take time linear in the length of the
//! number.

use std::cmp::Ordering;

use serde_json::Number;

/// Maximum magnitude of an exponent; a larger one is replaced with this value.
const EXPONENT_MAX: i64 = 100_000_000_000_000_000;

/// A number, `digits * 10^exponent`, without zeros at either end of the digits; zero has no digits.
#[derive(Clone, Copy, Debug)]
pub struct Decimal<'a> {
    is_negative: bool,
    /// The digits before the decimal point.
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Parses a JSON number.
    #[must_use]
    pub fn from_number(number: &'a Number) -> Self {
        let text = number.as_str().as_bytes();
        let unsigned = text.strip_prefix(b"-").unwrap_or(text);
        let (digits, exponent) = split_at_separator(unsigned, |byte| matches!(byte, b'e' | b'E'));
        let (whole, fraction) = split_at_separator(digits, |byte| byte == b'.');
        let (mut whole, mut fraction) = (trim_leading_zeros(whole), trim_trailing_zeros(fraction));
        let mut exponent = parse_exponent(exponent) - digit_count(fraction);
        if fraction.is_empty() {
            let significant = trim_trailing_zeros(whole);
            exponent += digit_count(whole) - digit_count(significant);
            whole = significant;
        }
        if whole.is_empty() {
            fraction = trim_leading_zeros(fraction);
        }
        let is_zero = whole.is_empty() && fraction.is_empty();
        Self {
            is_negative: !is_zero && unsigned.len() < text.len(),
            whole,
            fraction,
            exponent: if is_zero { 0 } else { exponent },
        }
    }

    /// True for an integer, including `5.0` and `5e0`.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        self.exponent >= 0
    }

    /// True if the number is an integer multiple of the divisor.
    pub(crate) fn is_multiple_of(&self, divisor: &Divisor) -> bool {
        let Some(zeros) = self.zeros_for(divisor) else {
            return self.sign() == 0;
        };
        let digits = self.digits().chain(std::iter::repeat_n(b'0', zeros));
        let remainder =
            |remainder: u128, digit: u8| (remainder * 10 + u128::from(digit - b'0')) % divisor.digits;
        divisor.digits == 1 || digits.fold(0, remainder) == 0
    }

    /// Returns the number of zeros to append for the divisor's exponent; `None` if this number's exponent is smaller,
    /// since a number that does not end in a zero is not a multiple of ten. More than 124 zeros make no difference: a
    /// divisor below 2^124 has at most that many factors of 2 or 5.
    fn zeros_for(&self, divisor: &Divisor) -> Option<usize> {
        usize::try_from(self.exponent - divisor.exponent).ok().map(|zeros| zeros.min(124))
    }

    /// Appends the canonical form to `key`.
    pub(crate) fn write_into(&self, key: &mut Vec<u8>) {
        key.push(if self.is_negative { b'-' } else { b'+' });
        key.extend(self.digits());
        key.push(b'e');
        key.extend(self.exponent.to_le_bytes());
    }

    fn digits(&self) -> impl Iterator<Item = u8> + use<'a> {
        self.whole.iter().chain(self.fraction).copied()
    }

    /// Returns the decimal position of the first digit.
    fn magnitude(&self) -> i64 {
        digit_count(self.whole) + digit_count(self.fraction) + self.exponent
    }

    fn sign(&self) -> i8 {
        match (self.digits().next(), self.is_negative) {
            (None, _) => 0,
            (Some(_), true) => -1,
            (Some(_), false) => 1,
        }
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_size = || {
            let by_magnitude = self.magnitude().cmp(&other.magnitude());
            by_magnitude.then_with(|| self.digits().cmp(other.digits()))
        };
        self.sign().cmp(&other.sign()).then_with(|| match self.sign() {
            0 => Ordering::Equal,
            1 => by_size(),
            _ => by_size().reverse(),
        })
    }
}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal<'_> {}

/// The operand of `multipleOf`: `digits * 10^exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    digits: u128,
    exponent: i64,
}

impl Divisor {
    /// Parses the operand; `None` for zero and for more than 37 digits, not counting zeros at either end.
    pub(crate) fn from_number(number: &Number) -> Option<Self> {
        let decimal = Decimal::from_number(number);
        let digits = decimal.digits().take(38).fold(0, |value, digit| value * 10 + u128::from(digit - b'0'));
        let can_divide = (1..=37).contains(&decimal.digits().count());
        can_divide.then_some(Self { digits, exponent: decimal.exponent })
    }
}

/// Returns the parts before and after the first separator.
fn split_at_separator(text: &[u8], is_separator: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| is_separator(*byte)) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

fn trim_leading_zeros(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|digit| **digit == b'0').count()..]
}

fn trim_trailing_zeros(digits: &[u8]) -> &[u8] {
    &digits[..digits.len() - digits.iter().rev().take_while(|digit| **digit == b'0').count()]
}

/// Parses the exponent; 0 if there are no digits.
fn parse_exponent(text: &[u8]) -> i64 {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let append = |value: i64, digit: &u8| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX);
    let value = digits.iter().fold(0, append);
    if is_negative { -value } else { value }
}

#[expect(clippy::cast_possible_wrap, reason = "no number is that long")]
fn digit_count(text: &[u8]) -> i64 {
    text.len() as i64
}

#[cfg(test)]
mod tests;
