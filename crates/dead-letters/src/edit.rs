//! A corrected body: what an edit changed, put into the text as it came.

use std::ops::Range;

use redeliver_core::message::envelope::members;
use serde_json::{Map, Value};

/// `body` with the members that differ between `before` and `after` replaced, removed or added, and every other byte as
/// it came. `before` is `body` as the editing tool writes it when it changes nothing: how it writes a number or a
/// character must not count as a change.
///
/// Members are compared inside objects, at any depth; an array or an object with a duplicate member is replaced as a
/// whole.
#[must_use]
pub fn splice(body: &str, before: &Value, after: &Value) -> String {
    // White space around the document belongs to no member: it is put back as it came.
    let start = body.len() - body.trim_start().len();
    let end = body.trim_end().len();
    let value = spliced(body, start..end, before, after);
    format!("{}{value}{}", &body[..start], &body[end..])
}

fn spliced(body: &str, at: Range<usize>, before: &Value, after: &Value) -> String {
    // If nothing inside has changed, no byte may change: digits, escapes and white space stay. Otherwise each member is
    // compared, and only a value that differs and is not an object is replaced.
    if before == after {
        return body[at].to_owned();
    }
    if let (Value::Object(before), Value::Object(after)) = (before, after)
        && let Some(object) = spliced_object(body, at, before, after)
    {
        return object;
    }
    after.to_string()
}

/// `None` if it is not clear which member is which.
fn spliced_object(
    body: &str,
    at: Range<usize>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Option<String> {
    let members = members(body, at.clone(), "").ok()?;
    // A segment is a member with the white space around it, without its commas. A member that is gone gives no segment;
    // one that stays keeps all of its segment except what changed within its value.
    let mut segments = Vec::with_capacity(members.len());
    for member in &members {
        let name = std::str::from_utf8(&member.name).ok()?;
        // A name that `before` does not have was written with an escape that the tool reads in another way: not clear.
        let was = before.get(name)?;
        if let Some(is) = after.get(name) {
            let value = spliced(body, member.value.clone(), was, is);
            let (head, tail) =
                (member.segment.start..member.value.start, member.value.end..member.segment.end);
            segments.push(format!("{}{value}{}", &body[head], &body[tail]));
        }
    }
    // New members come last, in the order in which the tool has them.
    let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
    segments.extend(new.map(|(name, value)| format!("{}:{value}", Value::from(name.as_str()))));
    Some(format!("{{{}}}", segments.join(",")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body after an edit of its parsed form.
    fn edited(body: &str, edit: impl Fn(&mut Value)) -> String {
        let before: Value = serde_json::from_str(body).unwrap();
        let mut after = before.clone();
        edit(&mut after);
        splice(body, &before, &after)
    }

    #[test]
    fn what_is_not_edited_keeps_its_bytes() {
        let body = "{ \"n\" : 1e400 , \"data\":{\"a\" : 1.50,\"b\":[1, 2],  \"c\":{\"\\u00e9\": 2 }} }\n";
        assert_eq!(edited(body, |_| {}), body);
        assert_eq!(
            edited(body, |body| body["data"]["a"] = 2.into()),
            "{ \"n\" : 1e400 , \"data\":{\"a\" : 2,\"b\":[1, 2],  \"c\":{\"\\u00e9\": 2 }} }\n"
        );
        assert_eq!(
            edited(body, |body| body["data"]["c"]["é"] = "x".into()),
            "{ \"n\" : 1e400 , \"data\":{\"a\" : 1.50,\"b\":[1, 2],  \"c\":{\"\\u00e9\": \"x\" }} }\n"
        );
    }

    #[test]
    fn members_are_removed_and_added() {
        let remove =
            |name: &'static str| move |body: &mut Value| drop(body.as_object_mut().unwrap().remove(name));
        assert_eq!(edited(r#"{"a":1, "b":2,"c":3}"#, remove("a")), r#"{ "b":2,"c":3}"#);
        assert_eq!(edited(r#"{"a":1, "b":2,"c":3}"#, remove("b")), r#"{"a":1,"c":3}"#);
        assert_eq!(edited(r#"{"a":1}"#, remove("a")), "{}");
        assert_eq!(edited(r#"{"a":1 }"#, |body| body["b\"c"] = 2.into()), r#"{"a":1 ,"b\"c":2}"#);
        assert_eq!(edited("{ }", |body| body["a"] = 1.into()), r#"{"a":1}"#);
    }

    #[test]
    fn an_array_and_an_object_with_a_duplicate_member_are_replaced_whole() {
        assert_eq!(edited(r#"{"a":[1, 2.0]}"#, |body| body["a"][0] = 3.into()), r#"{"a":[3,2.0]}"#);
        assert_eq!(
            edited(r#"{"d":{"a":1, "a":2}}"#, |body| body["d"]["b"] = 3.into()),
            r#"{"d":{"a":2,"b":3}}"#
        );
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[a-c\"\\\\é]{0,3}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_result_means_what_the_edit_meant(before in value(), after in value(), pretty: bool) {
            let body = if pretty { serde_json::to_string_pretty(&before) } else { serde_json::to_string(&before) };
            let result = splice(&body.unwrap(), &before, &after);
            prop_assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), after);
        }
    }
}
