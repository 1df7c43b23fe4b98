//! Applies an edit's changes to the original text of a body.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};

/// Replaces, removes or adds the members that differ between `before` and `after`, and keeps every other byte of
/// `body`. `before` is `body` as the editing tool writes it without changes, so that the tool's own number and
/// character formats do not count as changes.
///
/// Objects are compared member by member at any depth. An array, or an object with a duplicate member, is replaced as a
/// whole.
#[must_use]
pub fn splice_edit(body: &str, before: &Value, after: &Value) -> String {
    // If no value changes, no byte may change: digits, escapes and white space are kept.
    let Some(change) = ValueChange::from_values(before, after) else { return body.to_owned() };
    // White space around the document belongs to no member and is kept as is.
    let start = body.len() - body.trim_start().len();
    let end = body.trim_end().len();
    let mut edited = String::with_capacity(body.len());
    edited.push_str(&body[..start]);
    change.write_value(&JsonBody::new(body), start..end, &mut edited);
    edited.push_str(&body[end..]);
    edited
}

/// The change that an edit makes to a value. Changes, bracket ends and the result are each computed in one pass: an
/// edit a hundred levels deep must not read, compare and copy every level a hundred times.
enum ValueChange<'v> {
    /// The whole value is replaced by this one.
    Whole(&'v Value),
    Members(MemberChanges<'v>),
}

/// The changes to an object's members.
struct MemberChanges<'v> {
    before: &'v Map<String, Value>,
    after: &'v Map<String, Value>,
    /// The members of `before` that differ; `None` for a removed member.
    changed: BTreeMap<&'v str, Option<ValueChange<'v>>>,
}

impl<'v> ValueChange<'v> {
    /// Compares two values. Returns `None` if they are equal.
    fn from_values(before: &'v Value, after: &'v Value) -> Option<Self> {
        let (Value::Object(before), Value::Object(after)) = (before, after) else {
            return (before != after).then_some(Self::Whole(after));
        };
        let change = |(name, was): (&'v String, &'v Value)| match after.get(name) {
            None => Some((name.as_str(), None)),
            Some(is) => Self::from_values(was, is).map(|change| (name.as_str(), Some(change))),
        };
        let changed: BTreeMap<_, _> = before.iter().filter_map(change).collect();
        let are_same = changed.is_empty() && before.len() == after.len();
        (!are_same).then_some(Self::Members(MemberChanges { before, after, changed }))
    }

    /// Writes the value at `at` in the body with this change applied.
    fn write_value(&self, body: &JsonBody<'_>, at: Range<usize>, edited: &mut String) {
        match self {
            Self::Whole(after) => edited.push_str(&after.to_string()),
            Self::Members(changes) => match changes.match_members(body, at) {
                Some(members) => changes.write_members(members, body, edited),
                None => edited.push_str(&serialize_object(changes.after)),
            },
        }
    }
}

impl MemberChanges<'_> {
    /// Matches the members in the body, or returns `None` if the match is ambiguous.
    fn match_members(&self, body: &JsonBody<'_>, at: Range<usize>) -> Option<Vec<BodyMember>> {
        let members = body.list_members(at)?;
        // A name missing from `before` was written with an escape that the tool reads differently.
        let is_unambiguous = members.len() == self.before.len()
            && members.iter().all(|member| self.before.contains_key(&member.name));
        is_unambiguous.then_some(members)
    }

    /// Writes the remaining and new members. A segment is a member with its surrounding white space, without commas. A
    /// removed member yields no segment; a remaining member keeps its segment except for changes in its value.
    fn write_members(&self, members: Vec<BodyMember>, body: &JsonBody<'_>, edited: &mut String) {
        edited.push('{');
        let first = edited.len();
        for BodyMember { name, segment, value } in members {
            let change = match self.changed.get(name.as_str()) {
                Some(None) => continue,
                Some(Some(change)) => Some(change),
                None => None,
            };
            push_comma(edited, first);
            match change {
                None => edited.push_str(&body.text[segment]),
                Some(change) => {
                    edited.push_str(&body.text[segment.start..value.start]);
                    let after_value = value.end..segment.end;
                    change.write_value(body, value, edited);
                    edited.push_str(&body.text[after_value]);
                }
            }
        }
        // New members are appended in the tool's order.
        for (name, value) in self.after.iter().filter(|(name, _)| !self.before.contains_key(*name)) {
            push_comma(edited, first);
            edited.push_str(&format!("{}:{value}", Value::from(name.as_str())));
        }
        edited.push('}');
    }
}

fn push_comma(edited: &mut String, first: usize) {
    if edited.len() > first {
        edited.push(',');
    }
}

fn serialize_object(object: &Map<String, Value>) -> String {
    serde_json::to_string(object).expect("a map with string keys always serializes")
}

/// A member of an object in the body.
struct BodyMember {
    name: String,
    /// The range after `{` or `,` up to the next `,` or `}`.
    segment: Range<usize>,
    value: Range<usize>,
}

/// The body. It is known to be valid JSON, and is not validated again.
struct JsonBody<'a> {
    text: &'a str,
    /// The ranges of objects and arrays, in order.
    brackets: Vec<Range<usize>>,
}

impl<'a> JsonBody<'a> {
    fn new(text: &'a str) -> Self {
        let json = text.as_bytes();
        let (mut brackets, mut open, mut next) = (Vec::new(), Vec::new(), 0);
        while let Some(byte) = json.get(next) {
            let end = if *byte == b'"' { string_end(json, next) } else { next + 1 };
            match byte {
                b'{' | b'[' => {
                    open.push(brackets.len());
                    brackets.push(next..json.len());
                }
                b'}' | b']' => {
                    let opened: Option<&mut Range<usize>> =
                        open.pop().and_then(|index| brackets.get_mut(index));
                    opened.into_iter().for_each(|bracket| bracket.end = end);
                }
                _ => {}
            }
            next = end;
        }
        Self { text, brackets }
    }

    /// Lists the members of the object at `at`, or returns `None` if a name cannot be read.
    fn list_members(&self, at: Range<usize>) -> Option<Vec<BodyMember>> {
        let json = self.text.as_bytes();
        let mut members = Vec::new();
        let mut start = at.start + 1;
        if whitespace_end(json, start) + 1 == at.end {
            return Some(members);
        }
        while start < at.end {
            let name = whitespace_end(json, start);
            let name = name..string_end(json, name);
            let colon = whitespace_end(json, name.end);
            let value = whitespace_end(json, colon + 1);
            let value = value..self.value_end(value);
            let end = whitespace_end(json, value.end);
            let name = serde_json::from_str(self.text.get(name)?).ok()?;
            members.push(BodyMember { name, segment: start..end, value });
            start = end + 1;
        }
        Some(members)
    }

    /// Returns the end of the value at `at`.
    fn value_end(&self, at: usize) -> usize {
        let json = self.text.as_bytes();
        match json.get(at) {
            Some(b'"') => string_end(json, at),
            Some(b'{' | b'[') => {
                let found = self.brackets.binary_search_by_key(&at, |bracket| bracket.start);
                found.map_or(json.len(), |index| self.brackets[index].end)
            }
            // A number or a literal (`true`, `false`, `null`).
            _ => {
                let is_inside =
                    |byte: &&u8| !matches!(byte, b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r');
                at + json.get(at..).unwrap_or_default().iter().take_while(is_inside).count()
            }
        }
    }
}

/// Returns the end of the white space at `at`.
fn whitespace_end(json: &[u8], at: usize) -> usize {
    let is_white = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    at + json.get(at..).unwrap_or_default().iter().take_while(is_white).count()
}

/// Returns the end of the string at `at`.
fn string_end(json: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while let Some(byte) = json.get(next) {
        match byte {
            b'\\' => next += 2,
            b'"' => return next + 1,
            _ => next += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the body after an edit to its parsed form.
    fn apply_edit(body: &str, edit: impl Fn(&mut Value)) -> String {
        let before: Value = serde_json::from_str(body).unwrap();
        let mut after = before.clone();
        edit(&mut after);
        splice_edit(body, &before, &after)
    }

    #[test]
    fn unedited_members_keep_their_bytes() {
        let body = "{ \"n\" : 1e400 , \"data\":{\"a\" : 1.50,\"b\":[1, 2],  \"c\":{\"\\u00e9\": 2 }} }\n";
        assert_eq!(apply_edit(body, |_| {}), body);
        assert_eq!(
            apply_edit(body, |body| body["data"]["a"] = 2.into()),
            "{ \"n\" : 1e400 , \"data\":{\"a\" : 2,\"b\":[1, 2],  \"c\":{\"\\u00e9\": 2 }} }\n"
        );
        assert_eq!(
            apply_edit(body, |body| body["data"]["c"]["é"] = "x".into()),
            "{ \"n\" : 1e400 , \"data\":{\"a\" : 1.50,\"b\":[1, 2],  \"c\":{\"\\u00e9\": \"x\" }} }\n"
        );
    }

    #[test]
    fn windows_line_endings_after_an_edited_number_are_kept() {
        let body = "{\r\n\"a\":1\r\n,\"b\":true\r\n}\r\n";
        assert_eq!(apply_edit(body, |body| body["a"] = 2.into()), "{\r\n\"a\":2\r\n,\"b\":true\r\n}\r\n");
        assert_eq!(
            apply_edit(body, |body| body["b"] = false.into()),
            "{\r\n\"a\":1\r\n,\"b\":false\r\n}\r\n"
        );
    }

    #[test]
    fn an_edit_removes_and_adds_members() {
        let remove =
            |name: &'static str| move |body: &mut Value| drop(body.as_object_mut().unwrap().remove(name));
        assert_eq!(apply_edit(r#"{"a":1, "b":2,"c":3}"#, remove("a")), r#"{ "b":2,"c":3}"#);
        assert_eq!(apply_edit(r#"{"a":1, "b":2,"c":3}"#, remove("b")), r#"{"a":1,"c":3}"#);
        assert_eq!(apply_edit(r#"{"a":1}"#, remove("a")), "{}");
        assert_eq!(apply_edit(r#"{"a":1 }"#, |body| body["b\"c"] = 2.into()), r#"{"a":1 ,"b\"c":2}"#);
        assert_eq!(apply_edit("{ }", |body| body["a"] = 1.into()), r#"{"a":1}"#);
    }

    #[test]
    fn an_array_and_an_object_with_a_duplicate_member_are_replaced_whole() {
        assert_eq!(apply_edit(r#"{"a":[1, 2.0]}"#, |body| body["a"][0] = 3.into()), r#"{"a":[3,2.0]}"#);
        assert_eq!(
            apply_edit(r#"{"d":{"a":1, "a":2}}"#, |body| body["d"]["b"] = 3.into()),
            r#"{"d":{"a":2,"b":3}}"#
        );
    }

    /// A spliced body would lose the edit, since none of its members has the changed name.
    #[test]
    fn a_body_whose_names_jq_reads_differently_is_replaced_whole() {
        let [before, after] = [1, 2].map(|number| serde_json::json!({ "b": 1, "\u{fffd}": number }));
        assert_eq!(splice_edit(r#"{"\u0001": 1, "b": 1}"#, &before, &after), "{\"b\":1,\"\u{fffd}\":2}");
    }

    /// Nests an object; each level contains an unedited member and the next level.
    fn nested_body(levels: usize, innermost: &str) -> String {
        format!("{}{innermost}{}", r#"{"a" : [1.50,"}"],"n": "#.repeat(levels), " }".repeat(levels))
    }

    #[test]
    fn an_edit_a_hundred_levels_deep_keeps_all_other_bytes() {
        let edit_deepest = |body: &mut Value| {
            let at = (0..100).fold(body, |at, _| &mut at["n"]);
            at["x"] = 2.into();
        };
        assert_eq!(
            apply_edit(&nested_body(100, r#"{ "x":1e0 , "y":1e0}"#), edit_deepest),
            nested_body(100, r#"{ "x":2 , "y":1e0}"#)
        );
        let twice = r#"{"x":1,"x":1}"#;
        assert_eq!(apply_edit(&nested_body(100, twice), edit_deepest), nested_body(100, r#"{"x":2}"#));
    }

    #[test]
    fn values_of_every_kind_around_an_edit_keep_their_bytes() {
        for value in [
            "-1.50e+3",
            "\"a\\\"]},\"",
            "true",
            "null",
            "[ [1 , {\"b\":2}], \"[\" ]",
            "{ \"c\" : { } }",
            "[]",
        ] {
            for white in ["", " ", "\n\t"] {
                let body = |edited: &str| {
                    format!(
                        "{{{white}\"v\"{white}:{white}{value}{white},\"e\":{edited}{white},{white}\"w\":{value}{white}}}"
                    )
                };
                assert_eq!(apply_edit(&body("[0, 1]"), |body| body["e"] = "x".into()), body("\"x\""));
            }
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
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
        fn a_spliced_body_parses_to_the_edited_value(before in any_value(), after in any_value(), pretty: bool) {
            let body = if pretty { serde_json::to_string_pretty(&before) } else { serde_json::to_string(&before) };
            let result = splice_edit(&body.unwrap(), &before, &after);
            prop_assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), after);
        }
    }
}
