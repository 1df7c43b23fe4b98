//! `--edit`: a change of the body, and of nothing else.

use redeliver_core::metadata::OUR_MEMBERS;
use redeliver_core::value;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::edit::splice;
use crate::{DeadLetterRecord, Filter, FilterError};

/// Of `--edit .body.data`, which picks where it should change.
pub(super) const NOT_AN_ASSIGNMENT: &str = "its output is not the whole message any more; write an assignment, which keeps the rest, such as \
     `.body.data.currency = \"EUR\"`";

/// A change of `.body`.
#[derive(Debug)]
pub struct Edit(Change);

#[derive(Debug)]
enum Change {
    /// A jq filter, and the same document through the same writer, unchanged.
    Filter { change: Filter, identity: Filter },
    /// The body that it becomes.
    Body(Value),
}

impl Edit {
    /// Compiles a filter.
    ///
    /// # Errors
    /// With the place where it is wrong.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        let [change, identity] = [Filter::of_dead_letters(text)?, Filter::new(".")?];
        Ok(Self(Change::Filter { change, identity }))
    }

    /// The body as somebody has written it anew, of one message.
    ///
    /// # Errors
    /// If it is not JSON; with line and column.
    pub fn body(text: &str) -> Result<Self, String> {
        let body =
            serde_json::from_str::<&RawValue>(text).map_err(|error| format!("is not JSON: {error}"))?;
        Ok(Self(Change::Body(value::read(body.get()).unwrap_or_default())))
    }

    /// The body with what the edit changed in it; the inner error says why the edit must not be made.
    pub(super) fn edited(&self, record: &DeadLetterRecord) -> Result<Result<String, String>, FilterError> {
        match &self.0 {
            Change::Filter { change, identity } => filtered(change, identity, record),
            Change::Body(body) => {
                let before = value::read(&record.message.body).unwrap_or_default();
                Ok(with_body(record, &before, body))
            }
        }
    }
}

fn filtered(
    change: &Filter,
    identity: &Filter,
    record: &DeadLetterRecord,
) -> Result<Result<String, String>, FilterError> {
    // The document goes through the same tool twice, once unchanged. Comparing these two shows what the edit has
    // changed, and not how the tool writes a number or an escape.
    let id = &record.message.sqs_message_id;
    let read = |text: &str| value::read(text).unwrap_or_default();
    let before = read(&identity.edit(id, record.document())?);
    let after = read(&change.edit(id, record.document())?);
    let (Value::Object(document), Value::Object(mut changed)) = (before, after) else {
        return Ok(Err(NOT_AN_ASSIGNMENT.to_owned()));
    };
    if document.keys().any(|name| !changed.contains_key(name)) {
        return Ok(Err(NOT_AN_ASSIGNMENT.to_owned()));
    }
    let body = changed.remove("body").unwrap_or_default();
    if let Some(name) =
        document.keys().filter(|name| *name != "body").find(|name| changed.get(*name) != document.get(*name))
    {
        return Ok(Err(format!("it changes .{name}; only .body can be changed")));
    }
    Ok(with_body(record, &document["body"], &body))
}

/// Refuses what is no object, and a change of what is redeliver's own in it: that would forge a message's history, or
/// end its idempotency.
fn with_body(record: &DeadLetterRecord, before: &Value, after: &Value) -> Result<String, String> {
    if !(after.is_object() && before.is_object()) {
        return Err("the body is not a JSON object, before or after".to_owned());
    }
    let ours = |body: &Value, name: &str| body["metadata"].get(name).cloned();
    let kept = OUR_MEMBERS.into_iter().chain(["message_id"]);
    if let Some(name) = kept.into_iter().find(|name| ours(after, name) != ours(before, name)) {
        return Err(format!("it changes /metadata/{name}, which stays as it is"));
    }
    Ok(splice(&record.message.body, before, after))
}
