//! `--where` and `--edit`: jq, without a way out of the message, and with a limited time for each.
//!
//! A [`Filter`] runs in a thread of its own, message by message. Filters are the operator's own input: one that fills
//! the memory, or recurses until the stack overflows, ends the program.

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

/// Bytes of a filter's text; people write some hundred.
const TEXT_MAX: usize = 16_384;
/// Brackets in brackets.
const NESTING_MAX: usize = 200;
/// For one message.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Messages one after the other that took a filter too long. Then it would take too long for all.
const LATE_MAX: usize = 4;

/// A jq filter over the documents of dead letters. It has 1 s for each message; after four messages in a row that took
/// longer it fails for good ([`FilterError::Endless`]).
#[derive(Debug)]
pub struct Filter {
    task: FilterTask,
    worker: RefCell<Worker>,
    /// For one message; tests on a busy machine take longer.
    time_limit: Duration,
    /// The last messages that took it too long.
    late: Cell<usize>,
    /// The comparisons of members that may be missing.
    absent: RefCell<Option<MissingMembers>>,
}

/// The reason why a filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    #[error("the filter `{text}` is wrong at byte {} (`{}`): {}", wrong.offset, wrong.rest, wrong.reason)]
    Compile { text: String, wrong: FilterSyntaxError },
    /// The thread that runs it does not start.
    #[error("the filter `{text}` cannot be run: {reason}")]
    NotStarted { text: String, reason: String },
    /// It fails on every message that it was run on.
    #[error("the filter `{text}` fails on message {message_id}: {reason}")]
    Run {
        text: String,
        /// SQS's id of the first message.
        message_id: String,
        /// jq's error, without values of the message.
        reason: String,
    },
    /// It took longer than 1 s on four messages in a row.
    #[error(
        "the filter `{text}` was stopped on {LATE_MAX} messages in a row; on the last one, {message_id}, it {reason}"
    )]
    Endless {
        text: String,
        /// SQS's id of the message.
        message_id: String,
        /// The error on that message.
        reason: String,
    },
    /// Its output is neither true nor false nor null.
    #[error("the filter `{text}` returns {given} for message {message_id}, not true or false; {hint}")]
    NoVerdict {
        text: String,
        /// SQS's id of the message.
        message_id: String,
        /// The kind of its first output, without its value.
        given: &'static str,
        hint: &'static str,
    },
}

/// The position of an error in a filter's text, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterSyntaxError {
    /// In bytes from its start.
    pub offset: usize,
    /// The text at that position.
    pub rest: String,
    pub reason: String,
}

impl Filter {
    /// Compiles a filter for any JSON document.
    ///
    /// # Errors
    /// If the text does not compile, with the position of the error; if it has more than 16,384 bytes or 200 open
    /// brackets; or if its thread does not start.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        Self::from_task(FilterTask { text: text.to_owned(), is_of_dead_letters: false })
    }

    /// Compiles a filter for the documents of dead letters: a misspelled member, which jq would read as null, is an
    /// error.
    ///
    /// # Errors
    /// The same as of [`Filter::new`], and if the filter reads a member that dead letters do not have.
    pub fn for_dead_letters(text: &str) -> Result<Self, FilterError> {
        Self::from_task(FilterTask { text: text.to_owned(), is_of_dead_letters: true })
    }

    fn from_task(task: FilterTask) -> Result<Self, FilterError> {
        check_limits(&task.text)?;
        let StartedWorker { worker, missing } = Worker::start(&task)?;
        Ok(Self {
            task,
            worker: RefCell::new(worker),
            time_limit: TIME_LIMIT,
            late: Cell::default(),
            absent: RefCell::new(missing),
        })
    }

    /// The filter as it was typed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.task.text
    }

    /// Runs the filter on a JSON document. Its first output decides: `true` picks the document; `false`, `null` and no
    /// output do not. If the filter fails, or takes longer than 1 s, this one document is not judged.
    ///
    /// # Errors
    /// If the first output is anything else. The filter `.a = "x"`, for example, outputs the changed document; treated
    /// as true it would pick every message. Also if the filter was stopped on four messages in a row.
    pub fn judge_document(&self, message_id: &str, document: &str) -> Result<Choice, FilterError> {
        let FilterOutput { outputs, lacks } = self.run_task(message_id, document)?;
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(why) => return Ok(Choice::NotJudged(why)),
        };
        let verdict = parse_verdict(outputs.first().map(String::as_str));
        let is_match = verdict.map_err(|given| FilterError::NoVerdict {
            text: self.task.text.clone(),
            message_id: message_id.to_owned(),
            given,
            hint: suggest_fix(&self.task.text),
        })?;
        if let Some(absent) = &mut *self.absent.borrow_mut() {
            absent.messages += u64::from(lacks);
        }
        Ok(if is_match { Choice::Picked } else { Choice::NotPicked })
    }

    /// The error of a filter that fails on every message, with the first of them as an example.
    pub(crate) fn failed_on_all(&self, message_id: String, reason: String) -> FilterError {
        FilterError::Run { text: self.task.text.clone(), message_id, reason }
    }

    /// Messages that were picked so far because jq reads a missing member as null.
    #[must_use]
    pub fn missing_members(&self) -> Option<MissingMembers> {
        self.absent.borrow().clone().filter(|absent| absent.messages > 0)
    }

    /// Runs the filter on a JSON document and returns its only output, as JSON. The inner error is the reason why this
    /// document has none: the filter fails on it, or has no output or several.
    ///
    /// # Errors
    /// If the filter was stopped on four messages in a row.
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

    /// Returns the filter's answer, or that it takes too long on this document.
    fn run_task(&self, message_id: &str, document: &str) -> Result<FilterOutput, FilterError> {
        if let Some(answer) = self.worker.borrow().run_document(document, self.time_limit) {
            self.late.set(0);
            return Ok(answer);
        }
        self.late.set(self.late.get() + 1);
        self.worker.borrow().abandon();
        let reason = format!("takes longer than {} s", self.time_limit.as_secs());
        if self.late.get() >= LATE_MAX {
            let (text, message_id) = (self.task.text.clone(), message_id.to_owned());
            return Err(FilterError::Endless { text, message_id, reason });
        }
        self.worker.replace(Worker::start(&self.task)?.worker);
        Ok(FilterOutput { outputs: Err(format!("the filter {reason} on it")), lacks: false })
    }
}

/// Longer filters are not parsed: no person writes them.
fn check_limits(text: &str) -> Result<(), FilterError> {
    let wrong = |offset: usize, reason: String| {
        let shortened = |text: &str, length: usize| text.chars().take(length).collect::<String>();
        let rest = shortened(&text[offset..], 20);
        let text = format!("{}…", shortened(text, 60));
        Err(FilterError::Compile { text, wrong: FilterSyntaxError { offset, rest, reason } })
    };
    if text.len() > TEXT_MAX {
        return wrong(0, format!("it has {} bytes; the limit is {TEXT_MAX}", text.len()));
    }
    let mut depth = 0_usize;
    for (offset, character) in text.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            return wrong(offset, format!("more than {NESTING_MAX} brackets are open"));
        }
    }
    Ok(())
}

/// The text of a string without anything to put in.
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
