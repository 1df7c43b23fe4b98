//! Checks SQS's message limits, according to "SendMessage" and "SendMessageBatch" in the Amazon SQS API Reference, and
//! "Amazon SQS message metadata" and "Amazon SQS message quotas" in the Amazon SQS Developer Guide. These checks are
//! independent of those in `redeliver-core`, so that each implementation catches errors in the other.

use redeliver_core::message::{Attribute, AttributeValue, Attributes, Content};
use redeliver_core::ports::EntryError;

use super::sender_fault;

/// The limit on the total size of body and attributes.
const BYTES_MAX: usize = 1024 * 1024;
const ATTRIBUTES_MAX: usize = 10;
/// Names and types are "up to 256 characters long" according to the Developer Guide, while SQS itself says that they
/// "must be shorter than 256 bytes".
const NAME_BYTES: std::ops::RangeInclusive<usize> = 1..=255;

/// Checks a message against the documented limits of SQS: 1 MiB of body and attributes, 10 attributes, and the legal
/// characters ("SendMessage", Amazon SQS API Reference).
///
/// # Errors
/// A sender fault with SQS's error code: `MissingParameter` for an empty body, `InvalidMessageContents` for an illegal
/// character in it, and `InvalidParameterValue` for anything else.
pub fn check_content(content: &Content) -> Result<(), EntryError> {
    let Content { body, attributes, message_group_id, deduplication_id, trace_header, .. } = content;
    if body.is_empty() {
        return Err(sender_fault("MissingParameter"));
    }
    if !is_text(body) {
        return Err(sender_fault("InvalidMessageContents"));
    }
    let is_valid = body.len() + attribute_bytes(attributes) <= BYTES_MAX
        && attributes.len() <= ATTRIBUTES_MAX
        && attributes.iter().all(|(name, attribute)| is_name(name) && has_valid_type(attribute))
        && message_group_id.as_deref().is_none_or(is_id)
        && deduplication_id.as_deref().is_none_or(is_id)
        && trace_header.as_deref().is_none_or(|header| !header.is_empty() && is_text(header));
    if is_valid { Ok(()) } else { Err(sender_fault("InvalidParameterValue")) }
}

/// Checks that a queue of this type accepts a message ("SendMessage", Amazon SQS API Reference). Embedded FIFO queues
/// do not support content-based deduplication.
pub(crate) fn check_queue_type(is_fifo: bool, content: &Content) -> Result<(), EntryError> {
    let Content { message_group_id, deduplication_id, delay, .. } = content;
    match (is_fifo, message_group_id, deduplication_id) {
        (true, None, _) => Err(sender_fault("MissingParameter")),
        // "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided
        // explicitly".
        (true, Some(_), None) => Err(sender_fault("InvalidParameterValue")),
        // "When you set FifoQueue, you can't set DelaySeconds per message."
        (true, Some(_), Some(_)) if delay.get() > 0 => Err(sender_fault("InvalidParameterValue")),
        // "The request include parameter that is not valid for this queue type".
        (false, _, Some(_)) => Err(sender_fault("InvalidParameterValue")),
        _ => Ok(()),
    }
}

/// True if SQS accepts every character: `#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF`.
fn is_text(text: &str) -> bool {
    text.chars().all(|character| match u32::from(character) {
        0x9 | 0xA | 0xD => true,
        code => code >= 0x20 && code != 0xFFFE && code != 0xFFFF,
    })
}

fn attribute_bytes(attributes: &Attributes) -> usize {
    let value = |attribute: &Attribute| match &attribute.value {
        AttributeValue::Text(text) => text.len(),
        AttributeValue::Binary(bytes) => bytes.len(),
    };
    attributes.iter().map(|(name, attribute)| name.len() + attribute.data_type.len() + value(attribute)).sum()
}

/// Checks an attribute's name: A-Z, a-z, 0-9, underscore, hyphen and period. It must not start or end with a period,
/// contain two periods in a row, or start with a prefix reserved by AWS.
fn is_name(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let lower = name.to_ascii_lowercase();
    NAME_BYTES.contains(&name.len())
        && name.bytes().all(is_legal)
        && name.split('.').all(|part| !part.is_empty())
        && !lower.starts_with("aws.")
        && !lower.starts_with("amazon.")
}

/// Checks an attribute's type: `String`, `Number` or `Binary`, with a value of that type. A custom label may contain
/// the same characters as a body.
fn has_valid_type(Attribute { data_type, value }: &Attribute) -> bool {
    let (kind, label) = data_type.split_once('.').unwrap_or((data_type, "none"));
    let is_type = NAME_BYTES.contains(&data_type.len()) && !label.is_empty() && is_text(label);
    is_type
        && match (kind, value) {
            ("String", AttributeValue::Text(text)) => !text.is_empty() && is_text(text),
            ("Number", AttributeValue::Text(text)) => is_number(text),
            ("Binary", AttributeValue::Binary(bytes)) => !bytes.is_empty(),
            _ => false,
        }
}

/// Checks a number. "A number can have up to 38 digits of precision, and it can be between 10^-128 and 10^+126",
/// positive or negative. Leading and trailing zeros do not count, since SQS trims them.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return false;
    }
    let all = [whole, fraction].concat();
    let Some(first) = all.find(|digit| digit != '0') else {
        return true;
    };
    let digits = all[first..].trim_end_matches('0');
    // The power of ten of the first nonzero digit.
    let power = whole.len().cast_signed() - 1 - first.cast_signed();
    digits.len() <= 38 && power >= -128 && (power < 126 || (power == 126 && digits == "1"))
}

/// Checks an id: up to 128 "alphanumeric characters and punctuation".
fn is_id(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use redeliver_core::limits::DelaySeconds;

    use super::*;

    fn text(data_type: &str, value: &str) -> Attribute {
        Attribute { data_type: data_type.to_owned(), value: AttributeValue::Text(value.to_owned()) }
    }

    fn content_with_attribute(name: &str, attribute: Attribute) -> Content {
        Content {
            body: "-".to_owned(),
            attributes: [(name.to_owned(), attribute)].into(),
            ..Content::default()
        }
    }

    #[test]
    fn names_follow_the_developer_guide() {
        for right in ["a", "trace.id_1-a", "AWSx", "awsome.x", "x.aws.y", &"x".repeat(255)] {
            assert_eq!(
                check_content(&content_with_attribute(right, Attribute::string("x"))),
                Ok(()),
                "{right}"
            );
        }
        for wrong in [
            "",
            ".a",
            "a.",
            "a..b",
            ".",
            "AWS.x",
            "amazon.x",
            "aMaZoN.x",
            "ü",
            "a b",
            "a\n",
            &"x".repeat(256),
        ] {
            let refused = Err(sender_fault("InvalidParameterValue"));
            assert_eq!(
                check_content(&content_with_attribute(wrong, Attribute::string("x"))),
                refused,
                "{wrong}"
            );
        }
    }

    #[test]
    fn types_follow_the_developer_guide_and_have_a_matching_value() {
        let bytes = |data_type: &str, bytes: &[u8]| Attribute {
            data_type: data_type.to_owned(),
            value: AttributeValue::Binary(bytes.to_vec()),
        };
        let long = format!("String.{}", "x".repeat(248));
        for right in [
            text("String", "ü"),
            text("String.application/json; charset=utf-8", "{}"),
            text(&long, "x"),
            text("Number.int", "7"),
            bytes("Binary", &[0]),
            bytes("Binary.png", &[255]),
        ] {
            assert_eq!(check_content(&content_with_attribute("a", right.clone())), Ok(()), "{right:?}");
        }
        let longer = format!("{long}x");
        for wrong in [
            text("", "x"),
            text("Text", "x"),
            text("string", "x"),
            text("Strings", "x"),
            text("String.", "x"),
            text("String.\u{FFFE}", "x"),
            text(&longer, "x"),
            text("String", ""),
            text("String", "\u{1}"),
            text("Binary", "x"),
            text("Number.int", "seven"),
            bytes("String", &[0]),
            bytes("Number", b"7"),
            bytes("Binary", &[]),
        ] {
            let refused = Err(sender_fault("InvalidParameterValue"));
            assert_eq!(check_content(&content_with_attribute("a", wrong.clone())), refused, "{wrong:?}");
        }
    }

    #[test]
    fn numbers_have_up_to_38_digits_and_lie_between_two_powers_of_ten() {
        let zeros = |count| "0".repeat(count);
        let (most, least) = (format!("1{}", zeros(126)), format!("0.{}1", zeros(127)));
        for right in [
            "0",
            "-0.00",
            "-1.5",
            "007.10",
            &"9".repeat(38),
            &format!("{}00.0", "9".repeat(38)),
            &most,
            &least,
        ] {
            assert!(is_number(right), "{right}");
            assert!(is_number(&format!("-{}", right.trim_start_matches('-'))), "{right}");
        }
        let (too_much, too_little) = (format!("11{}", zeros(125)), format!("0.{}1", zeros(128)));
        let wrong = [
            "", "-", ".", "1.", ".5", "+1", "1e5", "NaN", "inf", " 1", "1 ", "1 2", "0x1", "1,5", "٣", "--1",
            "1.2.3",
        ];
        for wrong in wrong.into_iter().chain([&*"9".repeat(39), &too_much, &too_little]) {
            assert!(!is_number(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_fifo_queue_needs_both_ids_and_accepts_no_delay() {
        let content_with = |group: Option<&str>, id: Option<&str>, delay: u64| Content {
            message_group_id: group.map(str::to_owned),
            deduplication_id: id.map(str::to_owned),
            delay: DelaySeconds::new(delay).unwrap(),
            ..Content::default()
        };
        let refused = |code| Err(sender_fault(code));
        for (content, on_fifo, on_standard) in [
            (content_with(Some("g"), Some("i"), 0), Ok(()), refused("InvalidParameterValue")),
            (
                content_with(Some("g"), Some("i"), 1),
                refused("InvalidParameterValue"),
                refused("InvalidParameterValue"),
            ),
            (content_with(Some("g"), None, 0), refused("InvalidParameterValue"), Ok(())),
            (content_with(None, Some("i"), 0), refused("MissingParameter"), refused("InvalidParameterValue")),
            (content_with(None, None, 0), refused("MissingParameter"), Ok(())),
            (content_with(None, None, 900), refused("MissingParameter"), Ok(())),
        ] {
            assert_eq!(check_queue_type(true, &content), on_fifo, "{content:?}");
            assert_eq!(check_queue_type(false, &content), on_standard, "{content:?}");
        }
    }

    #[test]
    fn bodies_groups_and_traces_follow_the_api_reference() {
        let with_body = |body: &str| Content { body: body.to_owned(), ..Content::default() };
        assert_eq!(check_content(&with_body("\t\n\r \u{D7FF}\u{E000}\u{FFFD}\u{10000}\u{10FFFF}")), Ok(()));
        assert_eq!(check_content(&with_body("")), Err(sender_fault("MissingParameter")));
        for illegal in ["\0", "\u{B}", "\u{1F}", "x\u{FFFE}", "\u{FFFF}"] {
            assert_eq!(
                check_content(&with_body(illegal)),
                Err(sender_fault("InvalidMessageContents")),
                "{illegal:?}"
            );
        }
        let refused = Err(sender_fault("InvalidParameterValue"));
        assert_eq!(check_content(&with_body(&"x".repeat(BYTES_MAX))), Ok(()));
        assert_eq!(check_content(&with_body(&"x".repeat(BYTES_MAX + 1))), refused);
        assert_eq!(
            check_content(&Content {
                body: "x".repeat(BYTES_MAX - 7),
                ..content_with_attribute("a", Attribute::string(""))
            }),
            refused
        );
        let eleven = (0..11).map(|n| (n.to_string(), Attribute::string("x"))).collect();
        assert_eq!(check_content(&Content { attributes: eleven, ..with_body("-") }), refused);
        for (id, expected) in [("a!~", Ok(())), ("", refused.clone()), ("a b", refused.clone())] {
            let content = Content { deduplication_id: Some(id.to_owned()), ..with_body("-") };
            assert_eq!(check_content(&content), expected, "{id}");
        }
        for (group, expected) in
            [("a!~", Ok(())), ("", refused.clone()), ("a b", refused.clone()), ("ü", refused.clone())]
        {
            let content = Content { message_group_id: Some(group.to_owned()), ..with_body("-") };
            assert_eq!(check_content(&content), expected, "{group}");
        }
        for (count, expected) in [(128, Ok(())), (129, refused.clone())] {
            let content = Content { message_group_id: Some("g".repeat(count)), ..with_body("-") };
            assert_eq!(check_content(&content), expected, "{count}");
        }
        for (trace, expected) in [("Root=1-0-0", Ok(())), ("", refused.clone()), ("\u{1}", refused)] {
            let content = Content { trace_header: Some(trace.to_owned()), ..with_body("-") };
            assert_eq!(check_content(&content), expected, "{trace}");
        }
    }
}
