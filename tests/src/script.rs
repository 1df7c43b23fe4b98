//! The common part of the scripted functions in Rust: the calls that `data.script` describes, and the journal.

use std::fs::OpenOptions;
use std::io::Write as _;

use serde_json::Value;

use crate::settings::env_variable;

/// A call for a message. The script has one action for each attempt or crash; later calls are `ok`.
pub struct ScriptedCall {
    /// The scripted action.
    pub action: String,
    /// The action's error text.
    pub text: String,
}

impl ScriptedCall {
    /// Looks up the call for the message with this body and writes it to the journal.
    ///
    /// # Panics
    /// If the body is not a message, or the journal cannot be written.
    #[must_use]
    pub fn begin_call(body: &str) -> Self {
        let body: Value = serde_json::from_str(body).expect("a handler is only called with a valid message");
        let metadata = &body["metadata"];
        let [attempt, redrives, snoozes] = ["retry_attempt", "redrive_count", "snooze_count"]
            .map(|name| metadata[name].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0));
        let scripted = body["data"]["script"][attempt + redrives].as_str();
        // A snooze spends no attempt, so a repeated snooze would never end.
        let action = scripted.filter(|action| *action != "snooze" || snoozes == 0).unwrap_or("ok").to_owned();
        let history = metadata["retry_history"].as_array().and_then(|history| history.last());
        let last = history.and_then(|failure| failure["error_type"].as_str()).unwrap_or("-");
        let message_id = metadata["message_id"].as_str().expect("a valid message has an id");
        write_journal(&format!("{message_id} {attempt} {snoozes} {action} {last}"));
        Self { action, text: body["data"]["text"].to_string() }
    }
}

/// Writes a line to the journal.
///
/// # Panics
/// If the line cannot be written.
pub fn write_journal(line: &str) {
    let journal = env_variable("SCRIPT_JOURNAL").expect("the harness sets SCRIPT_JOURNAL");
    let journal = OpenOptions::new().create(true).append(true).open(journal);
    let written = journal.and_then(|mut journal| journal.write_all(format!("{line}\n").as_bytes()));
    written.expect("the journal is writable");
}
