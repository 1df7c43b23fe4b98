//! JSON as a value, to be checked against a schema.

use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::envelope::unchecked_members;

/// How the member names begin that `serde_json` keeps for itself: an object with one of them becomes a number, or the text inside.
const PRIVATE: &str = "$serde_json::private::";

/// Reads a text. `serde_json` alone reads the two objects wrongly that it uses to pass on numbers and raw text; such names
/// are looked for, and then the text is read object by object. Of a member that stands twice the last one counts.
pub(super) fn read(text: &str) -> serde_json::Result<Value> {
    if may_have_private_name(text) { by_parts(text) } else { serde_json::from_str(text) }
}

/// Also where it is escaped: all of its characters are ASCII, so their escapes begin alike.
fn may_have_private_name(text: &str) -> bool {
    text.contains(PRIVATE) || (2..8).any(|high| text.contains(&format!("\\u00{high}")))
}

fn by_parts(text: &str) -> serde_json::Result<Value> {
    match text.as_bytes().first() {
        Some(b'{') => {
            let mut object = Map::new();
            for (name, value) in unchecked_members(text)? {
                let name = String::from_utf8(name.into_owned()).map_err(serde_json::Error::custom)?;
                object.insert(name, by_parts(value.get())?);
            }
            Ok(Value::Object(object))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            items.into_iter().map(|item| by_parts(item.get())).collect()
        }
        _ => serde_json::from_str(text),
    }
}
