//! Describes violations of the message schema in terms that help a producer: the format found, and the format to write.

use redeliver_json_schema::Violation;
use serde_json::Value;

use super::ANY_ID;

/// Members of `metadata` that are times.
const TIMES: [&str; 4] = ["expires_at", "next_retry_time", "first_sent_time", "held_since"];

/// Rewords the violated rule for an id or a time so that it names the format found, but not the value itself. Other
/// violations keep the schema's wording.
pub(super) fn describe_format(violation: Violation, instance: &Value) -> Violation {
    let value = instance.pointer(&violation.pointer);
    let rule = match violation.pointer.strip_prefix("/metadata/") {
        Some("message_id") => value.and_then(describe_id_rule),
        Some(name) if TIMES.contains(&name) && value.is_some_and(Value::is_number) => {
            Some("is a number: write the time as 2030-01-01T00:00:00Z".to_owned())
        }
        _ => None,
    };
    match rule {
        Some(rule) => Violation { rule, ..violation },
        None => violation,
    }
}

fn describe_id_rule(id: &Value) -> Option<String> {
    let form = match id {
        Value::Number(_) => "is a number, not a hyphenated UUID",
        Value::String(text) => describe_id_format(text),
        _ => return None,
    };
    Some(format!("{form}: write one{ANY_ID}"))
}

fn describe_id_format(text: &str) -> &'static str {
    let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Crockford's base 32 excludes four letters.
    let is_base_32 = |byte: u8| byte.is_ascii_alphanumeric() && !b"ILOU".contains(&byte.to_ascii_uppercase());
    match text.len() {
        24 if is_hexadecimal => "is an ObjectId, not a hyphenated UUID",
        26 if text.bytes().all(is_base_32) => "is a ULID, not a hyphenated UUID",
        27 if text.bytes().all(|byte| byte.is_ascii_alphanumeric()) => "is a KSUID, not a hyphenated UUID",
        32 if is_hexadecimal => "is a UUID without its hyphens",
        _ => "is not a hyphenated UUID",
    }
}
