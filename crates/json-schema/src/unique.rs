//! `uniqueItems` in time linear in the items' text. The validator's own compares all those with each other whose hashes
//! are the same, and a sender can make them so.

use std::collections::HashSet;

use serde_json::Value;

use crate::decimal::Decimal;

/// Whether no two are equal as JSON Schema has it. `may_go_on` is asked after each item with the size of its key; once
/// it says no, they are taken for unique.
pub(crate) fn are_unique(items: &[Value], may_go_on: impl Fn(usize) -> bool) -> bool {
    let mut seen = HashSet::with_capacity(items.len());
    for item in items {
        let mut key = Vec::new();
        write_key(item, &mut key);
        if !may_go_on(key.len()) {
            return true;
        }
        if !seen.insert(key) {
            return false;
        }
    }
    true
}

/// Two values have the same key if they are equal, and only then: each part says its kind and where it ends.
fn write_key(value: &Value, key: &mut Vec<u8>) {
    match value {
        Value::Null => key.push(b'n'),
        Value::Bool(true) => key.push(b't'),
        Value::Bool(false) => key.push(b'f'),
        Value::Number(number) => Decimal::of(number).write_into(key),
        Value::String(text) => write_text(text, key),
        Value::Array(items) => {
            key.push(b'[');
            items.iter().for_each(|item| write_key(item, key));
            key.push(b']');
        }
        // Their order is that of their names.
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
