//! Suggests the beginning of a jq edit for invalid messages.

use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_dead_letters::groups::DeadLetterGroup;

/// Returns a jq edit at the location named in the error. The edit changes nothing until its last dot is replaced.
/// `None` if the group's messages are not invalid.
#[must_use]
pub fn suggest_edit(group: &DeadLetterGroup) -> Option<String> {
    let is = |reason: DeadLetterReason| group.error_type == reason.as_str();
    if is(DeadLetterReason::InvalidMessageFormat) {
        return Some(".body |= .".to_owned());
    }
    if !is(DeadLetterReason::InvalidMessageSchema) {
        return None;
    }
    // A violation starts with its location, such as `/data/amount is not of type "number"`.
    let (location, rest) = group.error_details.split_once(' ').unwrap_or((&group.error_details, ""));
    let pointer = if location.starts_with('/') { location } else { "" };
    // jq would insert a missing member as null, so the edit starts at its parent.
    let pointer = match pointer.rsplit_once('/') {
        Some((parent, _)) if rest.starts_with("is missing") => parent,
        _ => pointer,
    };
    let steps: String = pointer.split('/').skip(1).map(jq_step).collect();
    Some(format!(".body{steps} |= ."))
}

/// Converts a step of a JSON Pointer to jq syntax.
fn jq_step(name: &str) -> String {
    let name = name.replace("~1", "/").replace("~0", "~");
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match name.bytes().next() {
        Some(first) if is_word && !first.is_ascii_digit() => format!(".{name}"),
        _ if is_word && name.parse::<u32>().is_ok() => format!("[{name}]"),
        _ => format!("[{}]", serde_json::Value::from(name)),
    }
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::redrive::{BodyEdit, RedriveDecision, RedrivePlan};

    use super::*;
    use crate::audit::examples;

    fn group(code: &str, details: &str) -> DeadLetterGroup {
        examples::report(&[examples::record(code, details, 1)]).groups.remove(0)
    }

    #[test]
    fn an_edit_starts_at_the_location_named_in_the_error() {
        for (details, edit) in [
            ("/data/amount is not of type \"number\"", ".body.data.amount |= ."),
            ("/metadata is missing", ".body |= ."),
            ("/data/order/id is missing", ".body.data.order |= ."),
            ("/data/items/0/a~1b is not a string; /data/x is missing", ".body.data.items[0][\"a/b\"] |= ."),
            ("/data/2nd\" is odd", ".body.data[\"2nd\\\"\"] |= ."),
            ("it has no message_id", ".body |= ."),
        ] {
            assert_eq!(suggest_edit(&group("INVALID_MESSAGE_SCHEMA", details)).as_deref(), Some(edit));
        }
        let format = group("INVALID_MESSAGE_FORMAT", "the body is not JSON: /data");
        assert_eq!(suggest_edit(&format).as_deref(), Some(".body |= ."));
        for other in ["NON_RETRYABLE_ERROR", "MESSAGE_EXPIRED", "ORCHESTRATION_FAILED"] {
            assert_eq!(suggest_edit(&group(other, "/data/amount is wrong")), None);
        }
    }

    /// Users might run the suggested command unchanged.
    #[test]
    fn an_unmodified_suggestion_changes_nothing() {
        for (details, expected) in
            [("/data/card is too short", ".body.data.card |= ."), ("/data/id is missing", ".body.data |= .")]
        {
            let record = examples::record("INVALID_MESSAGE_SCHEMA", details, 1);
            let edit = suggest_edit(&examples::report(std::slice::from_ref(&record)).groups[0]).unwrap();
            assert_eq!(edit, expected);
            let plan = RedrivePlan {
                edit: Some(BodyEdit::new(&edit).unwrap()),
                max_generation: 3,
                ..RedrivePlan::default()
            };
            let RedriveDecision::Send(sent) = plan.decide(&record).unwrap() else { panic!("it is valid") };
            assert!(!sent.edited, "{details}");
        }
    }
}
