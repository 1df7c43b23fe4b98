//! The SQS rules for attributes: "Amazon SQS message metadata" in the Amazon SQS Developer Guide, and "SendMessage" in
//! the Amazon SQS API Reference.
//!
//! The documentation is ambiguous in places, so there are two checks. An attribute received from SQS is sent on if SQS
//! *may* accept it, since SQS has accepted it before: [`check_attribute`]. An attribute folded into one of our
//! documents may be forged. It is restored only if SQS *certainly* accepts it, so only such attributes are folded:
//! [`is_certainly_accepted`].

use super::{Attribute, AttributeValue, UnsendableReason};
use crate::limits::find_illegal_character;

/// Length limit for names and types. (SQS's own error message says "must be shorter than 256 bytes".)
const CHARACTERS_MAX: usize = 256;
/// Length limit for a `MessageGroupId` or a `MessageDeduplicationId`.
const ID_CHARACTERS_MAX: usize = 128;
/// "A number can have up to 38 digits of precision, and it can be between 10^-128 and 10^+126."
const NUMBER_DIGITS_MAX: usize = 38;
const NUMBER_POWERS: std::ops::RangeInclusive<isize> = -128..=126;

/// Checks that SQS may accept this attribute.
///
/// Anything undocumented is accepted: non-ASCII letters in a name (SQS is known to accept umlauts), any text after one
/// of the three type names, and any number that some parser may accept: a leading `+`, an exponent, surrounding white
/// space, `NaN`, or more digits or a larger number than documented.
///
/// # Errors
/// Returns the broken rule.
pub(super) fn check_attribute(
    name: &str,
    Attribute { data_type, value }: &Attribute,
) -> Result<(), UnsendableReason> {
    check_name(name)?;
    let kind = check_type(name, data_type)?;
    let refuse = |found, wanted| {
        let (name, data_type) = (name.to_owned(), data_type.clone());
        Err(UnsendableReason::AttributeValue { name, data_type, found, wanted })
    };
    let is_empty = match value {
        AttributeValue::Text(_) if kind == ValueKind::Binary => return refuse("text", "bytes"),
        AttributeValue::Binary(_) if kind != ValueKind::Binary => return refuse("bytes", "text"),
        AttributeValue::Text(text) => {
            check_text(text, || format!("attribute {name}"))?;
            text.is_empty()
        }
        AttributeValue::Binary(bytes) => bytes.is_empty(),
    };
    match value {
        _ if is_empty => Err(UnsendableReason::EmptyAttribute { name: name.to_owned() }),
        AttributeValue::Text(text) if kind == ValueKind::Number && !may_be_number(text) => {
            Err(UnsendableReason::NotANumber { name: name.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Returns true if the documentation states unambiguously that SQS accepts this attribute.
pub(crate) fn is_certainly_accepted(name: &str, attribute: &Attribute) -> bool {
    let Attribute { data_type, value } = attribute;
    let (kind, label) = match data_type.split_once('.') {
        Some((kind, label)) => (kind, Some(label)),
        None => (data_type.as_str(), None),
    };
    check_attribute(name, attribute).is_ok()
        && name.is_ascii()
        && name.len().max(data_type.len()) < CHARACTERS_MAX
        && KINDS.iter().any(|(known, _)| *known == kind)
        && label != Some("")
        && match value {
            AttributeValue::Text(text) if kind == "Number" => is_documented_number(text),
            _ => true,
        }
}

/// Checks that SQS may accept this `MessageGroupId`.
///
/// # Errors
/// Returns the broken rule.
pub(super) fn check_message_group_id(id: &str) -> Result<(), UnsendableReason> {
    broken_id_rule(id).map_or(Ok(()), |rule| Err(UnsendableReason::MessageGroupId { rule }))
}

/// Checks that SQS may accept this `MessageDeduplicationId`.
///
/// # Errors
/// Returns the broken rule.
pub(super) fn check_deduplication_id(id: &str) -> Result<(), UnsendableReason> {
    broken_id_rule(id).map_or(Ok(()), |rule| Err(UnsendableReason::DeduplicationId { rule }))
}

/// Returns the broken rule, if any. Both kinds of ids follow the same rules ("SendMessage", Amazon SQS API Reference).
fn broken_id_rule(id: &str) -> Option<&'static str> {
    let is_legal = |character: char| character.is_ascii_graphic() || is_non_ascii_letter(character);
    match id.chars().count() {
        0 => Some("is empty"),
        1..=ID_CHARACTERS_MAX if id.chars().all(is_legal) => None,
        1..=ID_CHARACTERS_MAX => Some("has a space or a control character in it"),
        _ => Some("has more than 128 characters"),
    }
}

/// Checks that SQS accepts every character of this text.
///
/// # Errors
/// Returns the first character that SQS refuses.
pub(super) fn check_text(text: &str, place: impl Fn() -> String) -> Result<(), UnsendableReason> {
    match find_illegal_character(text) {
        Some((offset, character)) => {
            Err(UnsendableReason::IllegalCharacter { character, offset, place: place() })
        }
        None => Ok(()),
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), UnsendableReason> {
    let is_legal = |character: char| {
        character.is_ascii_alphanumeric() || "_-.".contains(character) || is_non_ascii_letter(character)
    };
    let begins_with =
        |reserved: &str| name.get(..reserved.len()).is_some_and(|start| start.eq_ignore_ascii_case(reserved));
    let rule = if name.is_empty() {
        "is empty"
    } else if name.chars().count() > CHARACTERS_MAX {
        "has more than 256 characters"
    } else if !name.chars().all(is_legal) {
        "has characters other than letters, digits, _, - and ."
    } else if name.split('.').any(str::is_empty) {
        "has a period at an end, or two in a row"
    } else if begins_with("AWS.") || begins_with("Amazon.") {
        "has a prefix that AWS reserves"
    } else {
        return Ok(());
    };
    Err(UnsendableReason::AttributeName { name: name.to_owned(), rule })
}

/// The kind of value that a type requires.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    String,
    Number,
    Binary,
}

const KINDS: [(&str, ValueKind); 3] =
    [("String", ValueKind::String), ("Number", ValueKind::Number), ("Binary", ValueKind::Binary)];

/// Determines the kind of value from the type's prefix: "You must use only the following supported type prefixes".
fn check_type(name: &str, data_type: &str) -> Result<ValueKind, UnsendableReason> {
    let refuse = |rule| {
        Err(UnsendableReason::AttributeType { name: name.to_owned(), data_type: data_type.to_owned(), rule })
    };
    let Some((_, kind)) = KINDS.into_iter().find(|(prefix, _)| data_type.starts_with(prefix)) else {
        return refuse("is not an SQS type");
    };
    if data_type.chars().count() > CHARACTERS_MAX {
        return refuse("has more than 256 characters");
    }
    check_text(data_type, || format!("type of the attribute {name}"))?;
    Ok(kind)
}

fn is_non_ascii_letter(character: char) -> bool {
    !character.is_ascii() && character.is_alphanumeric()
}

/// Returns true for anything that some number parser accepts, such as `1e5`, `+1`, `.5`, ` 1` and `NaN`.
fn may_be_number(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok()
}

/// Returns true for an optional sign and digits, with an optional decimal point between digits, within the documented
/// precision and range. "Leading and trailing zeroes are trimmed", so they do not count towards the precision.
fn is_documented_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return false;
    }
    let digits = format!("{whole}{fraction}");
    let trimmed = digits.trim_start_matches('0');
    // The power of ten of the first non-zero digit.
    let power = whole.len().cast_signed() - (digits.len() - trimmed.len()).cast_signed() - 1;
    let precise = trimmed.trim_end_matches('0');
    // The largest number is 10^126, a 1 followed by zeros, so the power alone decides except at the end of the range.
    let is_within = NUMBER_POWERS.contains(&power) && (power < *NUMBER_POWERS.end() || precise == "1");
    precise.is_empty() || (precise.len() <= NUMBER_DIGITS_MAX && is_within)
}

#[cfg(test)]
mod tests;
