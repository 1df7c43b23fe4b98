//! What SQS refuses beyond the limits that the types of `redeliver-core` hold.

use std::time::Duration;

use redeliver_core::message::{Attribute, AttributeValue, Content};
use redeliver_core::ports::{EntryError, Fault, QueueSettings};

/// "Amazon SQS message quotas": retention is 60 seconds to 14 days.
const RETENTION_SECONDS: std::ops::RangeInclusive<u64> = 60..=14 * 24 * 3600;

/// A request that is wrong: the same again would fail the same way.
pub(crate) fn sender_fault(code: &str) -> EntryError {
    EntryError { fault: Fault::Sender, code: code.to_owned() }
}

/// "CreateQueue", Amazon SQS API Reference: 1..=80 alphanumeric characters, hyphens and underscores. FIFO queues
/// cannot delay single messages, so their suffix (its dot) is refused here.
pub(crate) fn check_name(name: &str) -> Result<(), EntryError> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_valid = (1..=80).contains(&name.len()) && name.bytes().all(is_legal);
    if is_valid { Ok(()) } else { Err(sender_fault("InvalidParameterValue")) }
}

/// "CreateQueue": retention of 60 s to 14 days in whole seconds, `maxReceiveCount` of 1 to 1,000.
pub(crate) fn check_settings(settings: &QueueSettings) -> Result<(), EntryError> {
    let is_count_valid =
        settings.redrive.as_ref().is_none_or(|redrive| (1..=1000).contains(&redrive.max_receive_count));
    let is_retention_valid = settings.retention == Duration::from_secs(settings.retention.as_secs())
        && RETENTION_SECONDS.contains(&settings.retention.as_secs());
    if is_count_valid && is_retention_valid { Ok(()) } else { Err(sender_fault("InvalidAttributeValue")) }
}

/// "Amazon SQS message metadata" and "SendMessageBatch": attribute names and types, numbers, the message group id.
pub(crate) fn check_content(content: &Content) -> Result<(), EntryError> {
    let is_group_valid = content
        .message_group_id
        .as_deref()
        .is_none_or(|id| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()));
    let are_attributes_valid =
        content.attributes.iter().all(|(name, attribute)| is_name_valid(name) && is_type_valid(attribute));
    if is_group_valid && are_attributes_valid { Ok(()) } else { Err(sender_fault("InvalidParameterValue")) }
}

/// 1..=256 of A-Z, a-z, 0-9, underscore, hyphen and period, which neither begins nor ends it nor follows another;
/// not in AWS's own name space.
fn is_name_valid(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let lower = name.to_ascii_lowercase();
    (1..=256).contains(&name.len())
        && name.bytes().all(is_legal)
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..")
        && !lower.starts_with("aws.")
        && !lower.starts_with("amazon.")
}

/// `String`, `Number` or `Binary` with an optional label, and a value of that kind.
fn is_type_valid(attribute: &Attribute) -> bool {
    let logical = attribute.data_type.split_once('.').map_or(&*attribute.data_type, |(logical, _)| logical);
    match (logical, &attribute.value) {
        ("String", AttributeValue::Text(_)) | ("Binary", AttributeValue::Binary(_)) => true,
        ("Number", AttributeValue::Text(number)) => is_number(number),
        _ => false,
    }
}

/// Digits with an optional sign, point and exponent. (SQS also limits it to 38 digits and ±10^128.)
fn is_number(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    is_plain && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Attribute {
        Attribute { data_type: "Number.int".to_owned(), value: AttributeValue::Text(text.to_owned()) }
    }

    #[test]
    fn a_fifo_queue_is_refused() {
        assert!(check_name("orders").is_ok());
        assert_eq!(check_name("orders.fifo"), Err(sender_fault("InvalidParameterValue")));
        assert!(check_name("").is_err());
        assert!(check_name(&"x".repeat(81)).is_err());
    }

    #[test]
    fn attribute_names_and_types_are_those_of_sqs() {
        assert!(is_name_valid("trace.id_1-a"));
        for wrong in ["", ".a", "a.", "a..b", "AWS.x", "amazon.x", "ü", "a b"] {
            assert!(!is_name_valid(wrong), "{wrong}");
        }
        assert!(is_type_valid(&number("-1.5e3")));
        for wrong in ["", "ten", "inf", "NaN", "1 2"] {
            assert!(!is_type_valid(&number(wrong)), "{wrong}");
        }
        assert!(!is_type_valid(&Attribute { data_type: "Text".to_owned(), ..Attribute::string("x") }));
        assert!(!is_type_valid(&Attribute { data_type: "Binary".to_owned(), ..Attribute::string("x") }));
    }
}
