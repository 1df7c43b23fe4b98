//! `edit::splice_edit` with a body and its edited value.

use crate::edit::splice_edit;
use redeliver_core::json::value;
use serde_json::Value;

use super::split_parts;
use crate::json::{self, JsonNode, NodeKind};

pub(super) fn check(input: &str) {
    let [body, edited] = split_parts(input);
    let (Ok(before), Ok(after)) = (value::parse_value(body), value::parse_value(edited)) else { return };
    check_value(body, &before);
    assert_eq!(splice_edit(body, &before, &before), body, "nothing was edited");
    let spliced = splice_edit(body, &before, &after);
    match value::parse_value(&spliced) {
        Ok(meant) => assert_eq!(meant, after, "{body:?} became {spliced:?}"),
        Err(error) => panic!("{error}: {body:?} became {spliced:?}"),
    }
    let (Ok(body_node), Ok(spliced_node)) = (json::parse_json(body), json::parse_json(&spliced)) else {
        return;
    };
    check_kept_bytes((body, &body_node), (&spliced, &spliced_node), &before, &after);
    let space = |text: &str, node: &JsonNode| (text[..node.at.start].len(), text[node.at.end..].len());
    assert_eq!(space(body, &body_node), space(&spliced, &spliced_node), "white space around {body:?}");
}

/// Checks that `serde_json` reads the same value, except for objects with a reserved name.
fn check_value(text: &str, value: &Value) {
    if !json::parse_json(text).is_ok_and(|node| has_private_name(&node)) {
        assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(value), "{text:?}");
    }
}

fn has_private_name(node: &JsonNode) -> bool {
    match &node.kind {
        NodeKind::Object(members) => members.iter().any(|member| {
            String::from_utf16_lossy(&member.name).starts_with("$serde_json::private::")
                || has_private_name(&member.value)
        }),
        NodeKind::Array(items) => items.iter().any(has_private_name),
        _ => false,
    }
}

/// Checks that equal values keep their bytes, and that members keep their order.
fn check_kept_bytes(body: (&str, &JsonNode), spliced: (&str, &JsonNode), before: &Value, after: &Value) {
    if before == after {
        assert_eq!(&body.0[body.1.at.clone()], &spliced.0[spliced.1.at.clone()]);
        return;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return };
    let (Some(members), Some(now)) = (body.1.members(), spliced.1.members()) else { return };
    if body.1.has_duplicate() {
        return;
    }
    let kept: Vec<_> =
        members.iter().filter(|member| now.iter().any(|now| now.name == member.name)).collect();
    for (member, now) in kept.iter().zip(now) {
        assert_eq!(member.name, now.name, "the order of members");
        let name = String::from_utf16_lossy(&member.name);
        if let (Some(before), Some(after)) = (before.get(&name), after.get(&name)) {
            check_kept_bytes((body.0, &member.value), (spliced.0, &now.value), before, after);
        }
    }
}
