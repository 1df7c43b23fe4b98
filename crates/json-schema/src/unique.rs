//! `uniqueItems` in linear time. The validator's own implementation compares all items with equal hashes, and a sender
//! can provoke collisions.

use std::collections::HashSet;

use serde_json::Value;

use crate::decimal::Decimal;

/// True if no two items are equal by the rules of JSON Schema.
pub(crate) fn are_unique(items: &[Value]) -> bool {
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().all(|item| {
        let mut key = Vec::new();
        write_key(item, &mut key);
        seen.insert(key)
    })
}

/// Appends a key that is the same only for equal values: it marks the kind and the end of each part.
fn write_key(value: &Value, key: &mut Vec<u8>) {
    match value {
        Value::Null => key.push(b'n'),
        Value::Bool(true) => key.push(b't'),
        Value::Bool(false) => key.push(b'f'),
        Value::Number(number) => Decimal::from_number(number).write_into(key),
        Value::String(text) => write_text(text, key),
        Value::Array(items) => {
            key.push(b'[');
            items.iter().for_each(|item| write_key(item, key));
            key.push(b']');
        }
        // Members are sorted by name.
        Value::Object(members) => {
            key.push(b'{');
            for (name, value) in members {
                write_text(name, key);
                write_key(value, key);
            }
            key.push(b'}');
        }
    }
}

fn write_text(text: &str, key: &mut Vec<u8>) {
    key.push(b'"');
    key.extend(text.len().to_le_bytes());
    key.extend(text.as_bytes());
}
