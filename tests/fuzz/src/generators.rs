//! Values from a fuzzer's bytes. A few bytes can produce a string of 100 KB, so that limits are reached.

use arbitrary::{Result, Unstructured};
use redeliver_core::limits::{ATTRIBUTES_MAX, MESSAGE_BYTES_MAX, is_legal};
use redeliver_core::message::{Attribute, AttributeValue, Attributes, attributes_size};

/// A producer's message that SQS accepts.
pub(crate) struct ProducerMessage {
    /// The message attributes.
    pub(crate) attributes: Attributes,
    /// The size of the body in bytes.
    pub(crate) body_bytes: usize,
}

/// Generates any string that a target or an attacker could send.
pub(crate) fn arbitrary_text(bytes: &mut Unstructured<'_>) -> Result<String> {
    const PARTS: [&str; 10] = ["\0", "\u{1}", "\u{FFFE}", "😀", "é", "\"", "\\", "\n", "word ", "4711"];
    let own: String = bytes.arbitrary()?;
    // Rarely, since a long string costs as much time as thousands of short ones.
    if bytes.int_in_range(0..=15_u8)? == 15 {
        let count = usize::from(bytes.int_in_range(0..=25_000_u16)?);
        return Ok(own + &bytes.choose(&PARTS)?.repeat(count));
    }
    Ok(own)
}

/// Generates a message that SQS accepts, with a body of any size up to the limit.
pub(crate) fn arbitrary_message(bytes: &mut Unstructured<'_>) -> Result<ProducerMessage> {
    let mut attributes = Attributes::new();
    for _ in 0..bytes.int_in_range(0..=ATTRIBUTES_MAX)? {
        let name = arbitrary_name(bytes)?;
        attributes.insert(name, arbitrary_attribute(bytes)?);
    }
    while attributes_size(&attributes) >= MESSAGE_BYTES_MAX {
        attributes.pop_last();
    }
    let left = MESSAGE_BYTES_MAX - attributes_size(&attributes);
    let body_bytes = match bytes.int_in_range(0..=3_u8)? {
        0 => 1,
        1 => left,
        2 => left.saturating_sub(usize::from(bytes.int_in_range(0..=9000_u16)?)).max(1),
        _ => bytes.int_in_range(1..=left)?,
    };
    Ok(ProducerMessage { attributes, body_bytes })
}

/// Generates an attribute name, possibly one that a final record uses, but not `Failure`, which is removed on arrival.
fn arbitrary_name(bytes: &mut Unstructured<'_>) -> Result<String> {
    const NAMES: [&str; 5] = ["ErrorType", "ErrorDetails", "DeadLetter", "traceparent", "a.b-c_D"];
    if bytes.arbitrary()? {
        return Ok((*bytes.choose(&NAMES)?).to_owned());
    }
    let length = bytes.int_in_range(1..=40_usize)?;
    let letter = char::from(*bytes.choose(b"abcdefghij")?);
    Ok(letter.to_string().repeat(length))
}

fn arbitrary_attribute(bytes: &mut Unstructured<'_>) -> Result<Attribute> {
    let data_type =
        *bytes.choose(&["String", "String.json", "Number", "Number.int", "Binary", "Binary.png"])?;
    if data_type.starts_with("Number") {
        let value = AttributeValue::Text(bytes.arbitrary::<i64>()?.to_string());
        return Ok(Attribute { data_type: data_type.to_owned(), value });
    }
    let text = arbitrary_text(bytes)?;
    let value = if data_type.starts_with("Binary") {
        AttributeValue::Binary(Some(text.into_bytes()).filter(|value| !value.is_empty()).unwrap_or(vec![0]))
    } else {
        let legal: String = text.chars().filter(|character| is_legal(*character)).collect();
        AttributeValue::Text(Some(legal).filter(|value| !value.is_empty()).unwrap_or("-".to_owned()))
    };
    Ok(Attribute { data_type: data_type.to_owned(), value })
}
