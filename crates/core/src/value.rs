//! JSON as a value, to be checked against a schema or compared with what an edit made of it.

use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::envelope::unchecked_members;

/// How the member names begin that `serde_json` keeps for itself: an object with one of them becomes a number, or the text inside.
const PRIVATE: &str = "$serde_json::private::";

/// As `serde_json` has it: it refuses one level more.
const NESTING_MAX: usize = 127;

/// Reads a text. `serde_json` alone reads the two objects wrongly that it uses to pass on numbers and raw text; such names
/// are looked for, and then the text is read object by object. Of a member that stands twice the last one counts.
///
/// # Errors
/// It is not JSON, is nested too deep, or has a lone surrogate, which no text can hold.
pub fn read(text: &str) -> serde_json::Result<Value> {
    if may_have_private_name(text) {
        by_parts(serde_json::from_str::<&RawValue>(text)?, NESTING_MAX)
    } else {
        serde_json::from_str(text)
    }
}

/// Also where it is escaped, in part or as a whole: its first character is a `$` or the escape of one, and all are ASCII. Other
/// escapes are no reason to read slowly: many encoders write `\u003c`.
fn may_have_private_name(text: &str) -> bool {
    text.contains(PRIVATE) || text.contains(r"\u0024") || (text.contains("\"$") && text.contains(r"\u00"))
}

fn by_parts(raw: &RawValue, levels: usize) -> serde_json::Result<Value> {
    let text = raw.get();
    let Some(levels) = levels.checked_sub(usize::from(text.starts_with(['{', '[']))) else {
        return Err(serde_json::Error::custom("recursion limit exceeded"));
    };
    if text.starts_with('{') {
        let mut object = Map::new();
        for (name, value) in unchecked_members(text)? {
            let name = String::from_utf8(name.into_owned()).map_err(serde_json::Error::custom)?;
            object.insert(name, by_parts(value, levels)?);
        }
        Ok(Value::Object(object))
    } else if text.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(text)?;
        items.into_iter().map(|item| by_parts(item, levels)).collect()
    } else {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_refuse_the_same() {
        for wrong in ["", "{", "{\"a\tb\":1}", "[1,]", "{\"\\ud800\":1}", "[\"\\ud800\"]", "1 2", "\u{c}1"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
            assert!(read(&format!(" [\"\\u0024\",{wrong}]")).is_err(), "{wrong:?}");
        }
        let nested =
            |text: &str, levels: usize| format!("{}{text}{}", "[".repeat(levels), "]".repeat(levels));
        for text in ["1", "\"\\u0024\""] {
            assert!(read(&nested(text, 127)).is_ok(), "{text}");
            assert!(read(&nested(text, 128)).is_err(), "{text}");
            assert!(read(&nested(text, 100_000)).is_err(), "{text}");
        }
    }

    #[test]
    fn both_ways_read_the_same() {
        for text in
            [r#" {"a" : [1e400, -0, {"b":1,"b":2}], "":{}, "e":[], "t":true} "#, "null", "\"x\"", " 1.50\n"]
        {
            let longer = format!(" [\"\\u0024\", {text}]\n");
            assert_eq!(read(&longer).unwrap()[1], read(text).unwrap(), "{text}");
        }
    }
}
