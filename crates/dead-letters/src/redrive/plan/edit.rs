//! `--edit`: changes only the body of a message.

use redeliver_core::message::metadata::OUR_MEMBERS;
use serde_json::Value;

use crate::edit::splice_edit;
use crate::surrogates::{loses_surrogates, read_lossy};
use crate::{DeadLetterRecord, Filter, FilterError};

/// The error for `--edit .body.data`, which selects a part instead of changing it.
pub(super) const NOT_AN_ASSIGNMENT: &str = "its output is no longer the whole message; write an assignment, which \
                                            keeps the rest, such as `.body.data.currency = \"EUR\"`";
/// The reason why an edit cannot be applied to a valid message.
const NOT_AN_OBJECT: &str = "the body is not a JSON object, before or after";

/// An edit to a message's `.body`.
#[derive(Debug)]
pub struct BodyEdit(EditKind);

#[derive(Debug)]
enum EditKind {
    /// A jq filter, and the identity filter. The identity filter's output shows how jq writes the unchanged document.
    Filter { change: Box<Filter>, identity: Box<Filter> },
    /// The new body.
    Body(String),
}

/// The parts of a message that an edit may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EditableParts {
    /// Everything but redeliver's own metadata and the id: changing those would forge the history or break idempotency.
    ProducerPart,
    /// Everything: the message was invalid, so no target has seen its id.
    All,
}

impl BodyEdit {
    /// Compiles the jq filter given with `--edit`.
    ///
    /// # Errors
    /// If the text does not compile, with the position of the error, or if it reads a member that dead letters do not
    /// have.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        let [change, identity] = [Filter::for_dead_letters(text)?, Filter::new(".")?].map(Box::new);
        Ok(Self(EditKind::Filter { change, identity }))
    }

    /// Creates an edit that replaces the body of one message with text written by a person.
    #[must_use]
    pub fn replace_body(text: &str) -> Self {
        Self(EditKind::Body(text.to_owned()))
    }

    /// Returns the filter as the user typed it, or the new body.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.0 {
            EditKind::Filter { change, .. } => change.text(),
            EditKind::Body(body) => body,
        }
    }

    /// Applies the edit and returns the new body. The inner error is the reason for rejecting the edit.
    pub(super) fn edit_body(
        &self,
        record: &DeadLetterRecord,
        editable: EditableParts,
    ) -> Result<Result<String, String>, FilterError> {
        match &self.0 {
            EditKind::Filter { change, identity } => apply_filter(change, identity, record, editable),
            EditKind::Body(text) => Ok(apply_text(record, text, editable)),
        }
    }
}

fn apply_filter(
    change: &Filter,
    identity: &Filter,
    record: &DeadLetterRecord,
    editable: EditableParts,
) -> Result<Result<String, String>, FilterError> {
    // The document goes through jq twice, once unchanged. Comparing the two outputs shows only what the edit changed,
    // not how jq writes numbers and escapes.
    let id = &record.message.sqs_message_id;
    let document = record.filter_document();
    let outputs = [identity.edit_document(id, &document)?, change.edit_document(id, &document)?];
    Ok(compare_outputs(outputs).and_then(|[before, after]| splice_body(record, &before, &after, editable)))
}

/// Returns `.body` before and after the edit, which must not have changed anything else.
fn compare_outputs([before, after]: [Result<String, String>; 2]) -> Result<[Value; 2], String> {
    let parse_output = |text: String| {
        read_lossy(&text).map_err(|_| "its output is not JSON, or the body is nested too deeply to edit")
    };
    let (Value::Object(mut document), Value::Object(mut changed)) =
        (parse_output(before?)?, parse_output(after?)?)
    else {
        return Err(NOT_AN_ASSIGNMENT.to_owned());
    };
    if document.keys().any(|name| !changed.contains_key(name)) {
        return Err(NOT_AN_ASSIGNMENT.to_owned());
    }
    let bodies = [&mut document, &mut changed].map(|whole| whole.remove("body").unwrap_or_default());
    if let Some((name, _)) = document.iter().find(|(name, value)| changed.get(*name) != Some(value)) {
        return Err(format!("it changes .{name}; only .body can be changed"));
    }
    if let Some(name) = changed.keys().find(|name| !document.contains_key(*name)) {
        return Err(format!("it adds .{name}; only .body can be changed"));
    }
    Ok(bodies)
}

/// Applies the text returned by an editor.
fn apply_text(record: &DeadLetterRecord, text: &str, editable: EditableParts) -> Result<String, String> {
    let body = &record.message.body;
    match (read_lossy(body), read_lossy(text)) {
        (Ok(before @ Value::Object(_)), Ok(after @ Value::Object(_))) => {
            splice_body(record, &before, &after, editable)
        }
        (_, Err(error)) if editable != EditableParts::All => Err(format!("the body is not JSON: {error}")),
        _ if editable != EditableParts::All => Err(NOT_AN_OBJECT.to_owned()),
        _ => {
            // HTML forms submit CRLF line endings.
            let with_unix_newlines = |text: &str| text.replace("\r\n", "\n");
            Ok(if with_unix_newlines(text) == with_unix_newlines(body) {
                body.clone()
            } else {
                with_unix_newlines(text)
            })
        }
    }
}

fn splice_body(
    record: &DeadLetterRecord,
    before: &Value,
    after: &Value,
    editable: EditableParts,
) -> Result<String, String> {
    let body = &record.message.body;
    if before == after {
        return Ok(body.clone());
    }
    let are_objects = before.is_object() && after.is_object();
    if editable == EditableParts::ProducerPart {
        if !are_objects {
            return Err(NOT_AN_OBJECT.to_owned());
        }
        let metadata_member = |body: &Value, name: &str| body["metadata"].get(name).cloned();
        let fixed_members = OUR_MEMBERS.into_iter().chain(["message_id"]);
        if let Some(name) = fixed_members
            .into_iter()
            .find(|name| metadata_member(after, name) != metadata_member(before, name))
        {
            return Err(format!("it changes /metadata/{name}, which cannot be changed"));
        }
    }
    let edited = match after {
        // The whole body as a string, which is how the document represents a body that is not JSON.
        Value::String(text) => text.clone(),
        _ if are_objects => splice_edit(body, before, after),
        _ => after.to_string(),
    };
    if loses_surrogates(body, &edited) {
        return Err("it would replace a lone surrogate with U+FFFD: change that text, too, or leave the text around it \
                    unchanged"
            .to_owned());
    }
    Ok(edited)
}
