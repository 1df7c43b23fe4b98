//! Parses JSON into a value, to validate it against a schema or to compare a document before and after an edit.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Prefix of the member names that `serde_json` reserves. It turns an object with such a member into a number or into
/// the text inside.
const PRIVATE_PREFIX: &str = "$serde_json::private::";

/// Parses a JSON text. By itself, `serde_json` misreads the two kinds of objects that it uses internally for numbers
/// and raw text, so a text with such a name takes a slower path. If a member is duplicated, the last one counts.
///
/// # Errors
/// Returns an error if the JSON is invalid, is nested too deeply, or has a lone surrogate, which a Rust string cannot
/// hold.
pub fn parse_value(text: &str) -> serde_json::Result<Value> {
    if may_have_private_name(text) {
        // Skimmed first, because `serde_json` accepts control characters in names that are read as bytes.
        serde_json::from_str::<&RawValue>(text)?;
        serde_json::from_str(text).map(|PlainValue(value)| value)
    } else {
        serde_json::from_str(text)
    }
}

/// Returns true if a text is a single JSON value. The text is only skimmed.
#[must_use]
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Reads an optional member that must not be `null`, which serde would treat as absent.
pub(crate) fn parse_non_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Returns true if a text may contain a reserved name, even a partly or fully escaped one: such a name starts with `$`
/// or its escape, and all its characters are ASCII. Other escapes do not take the slow path, because many encoders
/// write `\u003c`.
pub(crate) fn may_have_private_name(text: &str) -> bool {
    text.contains(PRIVATE_PREFIX)
        || text.contains(r"\u0024")
        || (text.contains("\"$") && text.contains(r"\u00"))
}

/// A value whose objects keep their names as written. In the two kinds of objects that `serde_json` makes up, names
/// arrive as strings, while a name in a document can be requested as bytes.
struct PlainValue(Value);

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainValueVisitor).map(Self)
    }
}

struct PlainValueVisitor;

impl<'de> Visitor<'de> for PlainValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(PlainValue(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key()? {
            match name {
                ParsedName::MadeUp => {
                    let digits: String = members.next_value()?;
                    return serde_json::from_str(&digits).map_err(A::Error::custom);
                }
                ParsedName::InDocument(name) => {
                    let PlainValue(value) = members.next_value()?;
                    object.insert(name, value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

enum ParsedName {
    /// The name in an object that `serde_json` makes up for a number.
    MadeUp,
    InDocument(String),
}

impl<'de> Deserialize<'de> for ParsedName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ParsedNameVisitor;
        impl Visitor<'_> for ParsedNameVisitor {
            type Value = ParsedName;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a member's name")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<ParsedName, E> {
                Ok(ParsedName::MadeUp)
            }

            fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<ParsedName, E> {
                let name =
                    std::str::from_utf8(name).map_err(|_| E::custom("lone surrogate in a member's name"))?;
                Ok(ParsedName::InDocument(name.to_owned()))
            }
        }
        deserializer.deserialize_bytes(ParsedNameVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_path_refuses_the_same_texts_as_the_fast_path() {
        for wrong in ["", "{", "{\"a\tb\":1}", "[1,]", "{\"\\ud800\":1}", "[\"\\ud800\"]", "1 2", "\u{c}1"] {
            assert!(parse_value(wrong).is_err(), "{wrong:?}");
            assert!(parse_value(&format!(" [\"\\u0024\",{wrong}]")).is_err(), "{wrong:?}");
        }
        let nested =
            |text: &str, levels: usize| format!("{}{text}{}", "[".repeat(levels), "]".repeat(levels));
        for text in ["1", "\"\\u0024\""] {
            assert!(parse_value(&nested(text, 127)).is_ok(), "{text}");
            assert!(parse_value(&nested(text, 128)).is_err(), "{text}");
            assert!(parse_value(&nested(text, 100_000)).is_err(), "{text}");
        }
    }

    #[test]
    fn slow_path_reads_the_same_values_as_the_fast_path() {
        for text in
            [r#" {"a" : [1e400, -0, {"b":1,"b":2}], "":{}, "e":[], "t":true} "#, "null", "\"x\"", " 1.50\n"]
        {
            let longer = format!(" [\"\\u0024\", {text}]\n");
            assert_eq!(parse_value(&longer).unwrap()[1], parse_value(text).unwrap(), "{text}");
        }
    }
}
