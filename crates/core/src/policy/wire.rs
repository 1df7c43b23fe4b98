//! The policy document. Serde parses it; if serde refuses it, the JSON Schema explains why.
//!
//! A function with a valid policy therefore starts without compiling the schema, which would take much of the start-up
//! time. A test checks that both accept the same documents.

mod contradictions;
mod preset;

use std::fmt::Display;
use std::ops::Range;

#[cfg(feature = "validator")]
use redeliver_json_schema::Schema;
use redeliver_json_schema::pointer_to;
use serde::de::{Deserialize as _, DeserializeOwned, Deserializer, Error};
use serde_json::{Map, Value};

#[cfg(feature = "validator")]
use super::{CircuitScope, POLICY_SCHEMA};
use super::{Policy, PolicyError};
use crate::json::members::{MalformedBody, parse_members};
use crate::json::value::{self, may_have_private_name};
use crate::message::schema::Violation;

pub(super) fn parse_with_defaults(defaults: &str, text: &str) -> Result<Policy, PolicyError> {
    let mut document = value::parse_value(text).map_err(|error| PolicyError::NotJson(error.to_string()))?;
    let mut contradictions = Vec::from_iter(duplicate_member(text, 0..text.len(), ""));
    contradictions.extend(contradictions::check_preset_and_backoff(&document));
    if let Some(written) = document.as_object_mut() {
        preset::expand_preset(written);
        add_defaults(written, serde_json::from_str(defaults).unwrap_or_default());
    }
    contradictions.extend(contradictions::find_contradictions(&document));
    // Contradictions are always checked, so that one error lists every mistake instead of one per deployment.
    match parse_object(&document) {
        // Serde reads an object with a member name reserved by `serde_json` as a number, even from a `Value`; the
        // schema does not.
        Ok(policy) if may_have_private_name(text) => {
            match [schema_violations(&document), contradictions].concat() {
                wrong if wrong.is_empty() => Ok(policy),
                wrong => Err(PolicyError::Refused(wrong)),
            }
        }
        Ok(policy) if contradictions.is_empty() => Ok(policy),
        Ok(_) => Err(PolicyError::Refused(contradictions)),
        Err(by_serde) => Err(PolicyError::Refused(explain_refusal(
            schema_violations(&document),
            contradictions,
            &by_serde,
        ))),
    }
}

/// Explains a refusal. Serde's message is the last resort: it has no pointer, but it is better than an error without a
/// reason.
fn explain_refusal(
    by_schema: Vec<Violation>,
    contradictions: Vec<Violation>,
    by_serde: &impl Display,
) -> Vec<Violation> {
    let violations = [by_schema, contradictions].concat();
    if violations.is_empty() {
        vec![Violation::new("", format!("cannot be read: {by_serde}"))]
    } else {
        violations
    }
}

/// Adds the defaults for absent members.
fn add_defaults(written: &mut Map<String, Value>, defaults: Map<String, Value>) {
    for (name, value) in defaults {
        written.entry(name).or_insert(value);
    }
}

/// Returns no violations: without the validator, only serde's message is available.
#[cfg(not(feature = "validator"))]
fn schema_violations(_: &Value) -> Vec<Violation> {
    Vec::new()
}

/// The schema's rule for an unknown member.
#[cfg(feature = "validator")]
const UNKNOWN_MEMBER: &str = "is not a known member";

/// Maximum edit distance of a suggestion; a more distant name is probably a different word.
#[cfg(feature = "validator")]
const SUGGESTION_DISTANCE_MAX: usize = 2;

/// Finds the policy member whose name is closest to the last name in a pointer.
#[cfg(feature = "validator")]
fn nearest_member(pointer: &str) -> Option<String> {
    let name = pointer.rsplit('/').next()?.to_ascii_lowercase();
    let schema: Value = serde_json::from_str(POLICY_SCHEMA).ok()?;
    let mut members = Vec::new();
    collect_member_names(&schema, &mut members);
    let edit_distance = |member: &String| strsim::osa_distance(&name, member);
    members
        .into_iter()
        .filter(|member| edit_distance(member) <= SUGGESTION_DISTANCE_MAX)
        .min_by_key(edit_distance)
}

/// Collects the names of all members that a schema describes.
#[cfg(feature = "validator")]
fn collect_member_names(schema: &Value, members: &mut Vec<String>) {
    match schema {
        Value::Object(parts) => {
            if let Some(Value::Object(described)) = parts.get("properties") {
                members.extend(described.keys().cloned());
            }
            parts.values().for_each(|part| collect_member_names(part, members));
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect_member_names(part, members)),
        _ => {}
    }
}

#[cfg(feature = "validator")]
fn schema_violations(document: &Value) -> Vec<Violation> {
    let schema = Schema::new(POLICY_SCHEMA).expect("our own schema is valid: a test compiles it");
    let mut violations = schema.violations(document, "");
    for Violation { pointer, rule } in &mut violations {
        if rule == UNKNOWN_MEMBER {
            let hint = nearest_member(pointer).map(|member| format!(": did you mean {member}?"));
            rule.push_str(&hint.unwrap_or_default());
            continue;
        }
        // The schema's own rules would mention only `false`, a regular expression, or an unknown member.
        let better = match pointer.strip_prefix("/circuit_breaker") {
            Some("") => "must be an object, or false: {} turns it on with all defaults",
            Some("/per") => CircuitScope::RULE,
            _ => continue,
        };
        better.clone_into(rule);
    }
    violations
}

/// Finds a duplicate member: a parser keeps the last one, but the first may be the intended one.
fn duplicate_member(text: &str, at: Range<usize>, pointer: &str) -> Option<Violation> {
    match parse_members(text, at, pointer) {
        Err(MalformedBody::DuplicateMember(pointer)) => {
            Some(Violation::new(pointer, "is a duplicate member"))
        }
        // Only objects have members; the schema reports a wrong type.
        found => found.unwrap_or_default().into_iter().find_map(|member| {
            let pointer = pointer_to(pointer, &String::from_utf8_lossy(&member.name));
            duplicate_member(text, member.value, &pointer)
        }),
    }
}

/// Parses an object into a field of type `T` or `Option<T>`. Serde alone would also read a struct from an array.
pub(super) fn parse_object<'de, D: Deserializer<'de>, T: DeserializeOwned, O: From<T>>(
    from: D,
) -> Result<O, D::Error> {
    let members = Map::deserialize(from)?;
    T::deserialize(Value::Object(members)).map(O::from).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests;
