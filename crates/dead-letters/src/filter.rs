//! `--where` and `--edit`: jq filters that are confined to the message and have a time limit per message.
//!
//! A [`Filter`] runs in a separate thread, one message at a time. Filters are trusted input from the operator: a filter
//! that exhausts memory or overflows the stack terminates the program.

mod compile;
mod members;
mod missing_members;
mod verdict;
mod worker;

use std::cell::{Cell, RefCell};
use std::time::Duration;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::Term;
use thiserror::Error;

pub use missing_members::MissingMembers;
use verdict::{parse_verdict, suggest_fix};
use worker::{FilterOutput, FilterTask, StartedWorker, Worker};

use crate::Choice;

/// The maximum length of a filter, in bytes; typical filters have about a hundred.
const TEXT_BYTES_MAX: usize = 16_384;
/// The maximum nesting depth of brackets.
const NESTING_MAX: usize = 200;
/// The time limit per message.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// The number of consecutive timeouts after which the filter is assumed to time out on all messages.
const TIMEOUTS_MAX: usize = 4;

/// A jq filter for the documents of dead letters. The time limit is 1 s per message. After timeouts on four messages
/// in a row, the filter fails permanently ([`FilterError::Endless`]).
#[derive(Debug)]
pub struct Filter {
    task: FilterTask,
    worker: RefCell<Worker>,
    /// The time limit per message; tests on a busy machine set a longer one.
    time_limit: Duration,
    /// The number of consecutive timeouts.
    timeouts: Cell<usize>,
    /// The comparisons with members that may be missing.
    missing: RefCell<Option<MissingMembers>>,
}

/// The reason why a filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    #[error("the filter `{text}` is wrong at byte {} (`{}`): {}", syntax_error.offset, syntax_error.rest, syntax_error.reason)]
    Compile { text: String, syntax_error: FilterSyntaxError },
    /// The filter's thread could not be started.
    #[error("the filter `{text}` cannot be run: {reason}")]
    NotStarted { text: String, reason: String },
    /// The filter fails on every message.
    #[error("the filter `{text}` fails on message {message_id}: {reason}")]
    Run {
        text: String,
        /// The SQS message id of the first message.
        message_id: String,
        /// jq's error, without values from the message.
        reason: String,
    },
    /// The filter took longer than 1 s on four messages in a row.
    #[error(
        "the filter `{text}` was stopped on {TIMEOUTS_MAX} messages in a row; on the last one, {message_id}, it {reason}"
    )]
    Endless {
        text: String,
        /// The SQS message id.
        message_id: String,
        /// The error on that message.
        reason: String,
    },
    /// The output is not true, false, or null.
    #[error("the filter `{text}` returns {output_type} for message {message_id}, not true or false; {hint}")]
    NoVerdict {
        text: String,
        /// The SQS message id.
        message_id: String,
        /// The type of the first output, without its value.
        output_type: &'static str,
        hint: &'static str,
    },
}

/// The position of an error in a filter's text, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterSyntaxError {
    /// The byte offset from the start of the text.
    pub offset: usize,
    /// The text at that position.
    pub rest: String,
    pub reason: String,
}

impl Filter {
    /// Compiles a filter for any JSON document.
    ///
    /// # Errors
    /// If the text does not compile (the error has the position), has more than 16,384 bytes or 200 open brackets, or
    /// the filter's thread does not start.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        Self::from_task(FilterTask { text: text.to_owned(), is_for_dead_letters: false })
    }

    /// Compiles a filter for the documents of dead letters: a misspelled member, which jq would read as null, is an
    /// error.
    ///
    /// # Errors
    /// Same as [`Filter::new`]; also if the filter reads a member that dead letters do not have.
    pub fn for_dead_letters(text: &str) -> Result<Self, FilterError> {
        Self::from_task(FilterTask { text: text.to_owned(), is_for_dead_letters: true })
    }

    fn from_task(task: FilterTask) -> Result<Self, FilterError> {
        check_limits(&task.text)?;
        let StartedWorker { worker, missing } = Worker::start(&task)?;
        Ok(Self {
            task,
            worker: RefCell::new(worker),
            time_limit: TIME_LIMIT,
            timeouts: Cell::default(),
            missing: RefCell::new(missing),
        })
    }

    /// Returns the filter as the user typed it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.task.text
    }

    /// Runs the filter on a JSON document. The document is picked if the first output is `true`, and not picked if it
    /// is `false` or `null`, or if there is no output. If the filter fails or takes longer than 1 s, only this document
    /// is left unjudged.
    ///
    /// # Errors
    /// If the first output is anything else: the filter `.a = "x"`, for example, outputs the changed document, which
    /// would pick every message if treated as true. Also if the filter timed out on four messages in a row.
    pub fn judge_document(&self, message_id: &str, document: &str) -> Result<Choice, FilterError> {
        let FilterOutput { outputs, lacks_member } = self.run_task(message_id, document)?;
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(why) => return Ok(Choice::NotJudged(why)),
        };
        let verdict = parse_verdict(outputs.first().map(String::as_str));
        let is_match = verdict.map_err(|output_type| FilterError::NoVerdict {
            text: self.task.text.clone(),
            message_id: message_id.to_owned(),
            output_type,
            hint: suggest_fix(&self.task.text),
        })?;
        if let Some(missing) = &mut *self.missing.borrow_mut() {
            missing.messages += u64::from(lacks_member);
        }
        Ok(if is_match { Choice::Picked } else { Choice::NotPicked })
    }

    /// Returns the error for a filter that fails on every message, with the first message as an example.
    pub(crate) fn all_failed_error(&self, message_id: String, reason: String) -> FilterError {
        FilterError::Run { text: self.task.text.clone(), message_id, reason }
    }

    /// Returns the compared members that were missing from messages picked so far: jq reads a missing member as null.
    #[must_use]
    pub fn missing_members(&self) -> Option<MissingMembers> {
        self.missing.borrow().clone().filter(|missing| missing.messages > 0)
    }

    /// Runs the filter on a JSON document and returns its only output, as JSON. The inner error says why there is no
    /// result: the filter failed, or produced no output or more than one.
    ///
    /// # Errors
    /// If the filter timed out on four messages in a row.
    pub fn edit_document(
        &self,
        message_id: &str,
        document: &str,
    ) -> Result<Result<String, String>, FilterError> {
        Ok(self.run_task(message_id, document)?.outputs.and_then(|mut outputs| {
            match (outputs.pop(), outputs.is_empty()) {
                (Some(output), true) => Ok(output),
                (None, _) => Err("it has no output; one is needed".to_owned()),
                (Some(_), false) => Err("it has several outputs; one is needed".to_owned()),
            }
        }))
    }

    /// Runs the filter on a document. If it times out, returns the reason instead of an output.
    fn run_task(&self, message_id: &str, document: &str) -> Result<FilterOutput, FilterError> {
        if let Some(answer) = self.worker.borrow().run_on_document(document, self.time_limit) {
            self.timeouts.set(0);
            return Ok(answer);
        }
        self.timeouts.set(self.timeouts.get() + 1);
        self.worker.borrow().abandon();
        let reason = format!("takes longer than {} s", self.time_limit.as_secs());
        if self.timeouts.get() >= TIMEOUTS_MAX {
            let (text, message_id) = (self.task.text.clone(), message_id.to_owned());
            return Err(FilterError::Endless { text, message_id, reason });
        }
        self.worker.replace(Worker::start(&self.task)?.worker);
        Ok(FilterOutput { outputs: Err(format!("the filter {reason} on it")), lacks_member: false })
    }
}

/// Rejects filters that are longer or more deeply nested than anyone would write, before they are parsed.
fn check_limits(text: &str) -> Result<(), FilterError> {
    let syntax_error = |offset: usize, reason: String| {
        let first_characters = |text: &str, length: usize| text.chars().take(length).collect::<String>();
        let rest = first_characters(&text[offset..], 20);
        let text = format!("{}…", first_characters(text, 60));
        Err(FilterError::Compile { text, syntax_error: FilterSyntaxError { offset, rest, reason } })
    };
    if text.len() > TEXT_BYTES_MAX {
        return syntax_error(0, format!("it has {} bytes; the limit is {TEXT_BYTES_MAX}", text.len()));
    }
    let mut depth = 0_usize;
    for (offset, character) in text.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            return syntax_error(offset, format!("more than {NESTING_MAX} brackets are open"));
        }
    }
    Ok(())
}

/// Returns the text of a string literal without interpolation.
fn string_literal<'s>(term: &Term<&'s str>) -> Option<&'s str> {
    match term {
        Term::Str(None, parts) => match parts.as_slice() {
            [StrPart::Str(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests;
