//! `--where` and `--edit`: jq, in a process of its own, without a way out of it, and within limits of time and memory.
//!
//! jaq is a library, but a filter is a program: it can recurse until the stack is full, collect until the memory is, and
//! go on for ever, and a thread cannot be ended. So [`serve_filter`] runs it, in our own program started once more, and
//! a [`Filter`] asks it, message by message.

mod compile;
mod members;
mod missing_members;
mod process;
mod verdict;
mod worker;

use std::cell::{Cell, RefCell};

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::Term;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use missing_members::MissingMembers;
pub(crate) use process::while_none_starts;
use process::{Ended, Process};
use verdict::{hint, verdict};
pub use worker::serve_filter;
use worker::{Answer, MEMORY_MAX, Task};

use crate::Choice;

/// Bytes of a filter's text; people write some hundred.
const TEXT_MAX: usize = 16_384;
/// Brackets in brackets.
const NESTING_MAX: usize = 200;
/// Messages one after the other that a filter was stopped on. Then it would be stopped on all.
const ENDED_MAX: usize = 4;

#[derive(Debug)]
pub struct Filter {
    task: Task,
    process: RefCell<Process>,
    /// The last messages that it was ended on.
    ended: Cell<usize>,
    /// The comparisons of members that may be missing.
    absent: RefCell<Option<MissingMembers>>,
}

/// The reason why a filter cannot be used. The command ends with exit code 2.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    #[error("the filter `{text}` is wrong at byte {} (`{}`): {}", wrong.offset, wrong.rest, wrong.reason)]
    Compile { text: String, wrong: Wrong },
    /// The process that runs it does not start.
    #[error("the filter `{text}` cannot be run: {reason}")]
    NotStarted { text: String, reason: String },
    /// It fails on every message that it was run on.
    #[error("the filter `{text}` fails on message {message_id}: {reason}")]
    Run {
        text: String,
        /// SQS's id of the first message.
        message_id: String,
        /// jq's words, without the message's values.
        reason: String,
    },
    /// It needs more than it may have, again and again.
    #[error(
        "the filter `{text}` was stopped on {ENDED_MAX} messages in a row; on the last one, {message_id}, it {reason}"
    )]
    Endless {
        text: String,
        /// SQS's id of the message.
        message_id: String,
        /// The error on that message.
        reason: String,
    },
    /// Its answer is neither yes nor no.
    #[error(
        "the filter `{text}` gives {given} on message {message_id}, where true or false is wanted; {hint}"
    )]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    /// In bytes from its start.
    pub offset: usize,
    /// The text at that position.
    pub rest: String,
    pub reason: String,
}

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// With the place where it is wrong.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        Self::of(Task { filter: text.to_owned(), is_of_dead_letters: false })
    }

    /// Compiles a filter for the documents of dead letters: it may name only members that they have.
    ///
    /// # Errors
    /// With the place where it is wrong.
    pub fn of_dead_letters(text: &str) -> Result<Self, FilterError> {
        Self::of(Task { filter: text.to_owned(), is_of_dead_letters: true })
    }

    fn of(task: Task) -> Result<Self, FilterError> {
        within_limits(&task.filter)?;
        let (process, absent) = Process::start(&task)?;
        let (process, absent) = (RefCell::new(process), RefCell::new(absent));
        Ok(Self { task, process, ended: Cell::default(), absent })
    }

    /// The filter's first output on a JSON document: `true` picks it; `false`, `null` and no output do not. A document on
    /// which the filter fails, or takes too much, is not judged, and says nothing of any other.
    ///
    /// # Errors
    /// If its first output is none of these: `.a = "x"` changes the message, and its output is not an answer. Taken for a
    /// yes it would pick every message.
    pub fn matches(&self, message_id: &str, document: &str) -> Result<Choice, FilterError> {
        let Answer { outputs, lacks } = self.run(message_id, document)?;
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(why) => return Ok(Choice::NotJudged(why)),
        };
        let verdict = verdict(outputs.first().map(String::as_str));
        let is_match = verdict.map_err(|given| FilterError::NoVerdict {
            text: self.task.filter.clone(),
            message_id: message_id.to_owned(),
            given,
            hint: hint(&self.task.filter),
        })?;
        if let Some(absent) = &mut *self.absent.borrow_mut() {
            absent.messages += u64::from(lacks);
        }
        Ok(if is_match { Choice::Picked } else { Choice::NotPicked })
    }

    /// The error of a filter that fails on every message, with the first of them as an example.
    pub(crate) fn failed_on_all(&self, message_id: String, reason: String) -> FilterError {
        FilterError::Run { text: self.task.filter.clone(), message_id, reason }
    }

    /// Messages that were picked so far because jq reads a missing member as null.
    #[must_use]
    pub fn missing_members(&self) -> Option<MissingMembers> {
        self.absent.borrow().clone().filter(|absent| absent.messages > 0)
    }

    /// The filter's only output on a JSON document, as JSON; the inner error says why there is none for this document.
    ///
    /// # Errors
    /// If the filter was stopped on several messages in a row.
    pub fn edit(&self, message_id: &str, document: &str) -> Result<Result<String, String>, FilterError> {
        Ok(self.run(message_id, document)?.outputs.and_then(|mut outputs| {
            match (outputs.pop(), outputs.is_empty()) {
                (Some(output), true) => Ok(output),
                (None, _) => Err("it has no output; one is needed".to_owned()),
                (Some(_), false) => Err("it has several outputs; one is needed".to_owned()),
            }
        }))
    }

    /// Returns the filter's answer, or that the filter was killed on this document.
    fn run(&self, message_id: &str, document: &str) -> Result<Answer, FilterError> {
        let mut process = self.process.borrow_mut();
        let reason = match process.ask(document) {
            Ok(answer) => {
                self.ended.set(0);
                return Ok(answer);
            }
            Err(Ended::Late(limit)) => format!("takes longer than {} s", limit.as_secs()),
            Err(Ended::Itself) => {
                format!("takes more than {} MiB of memory, or recurses too deep", MEMORY_MAX >> 20)
            }
        };
        self.ended.set(self.ended.get() + 1);
        // The old one is ended by this: asked again, it would give its late answer as that to the next document.
        *process = Process::start(&self.task)?.0;
        if self.ended.get() < ENDED_MAX {
            return Ok(Answer { outputs: Err(format!("the filter {reason} on it")), lacks: false });
        }
        let (text, message_id) = (self.task.filter.clone(), message_id.to_owned());
        Err(FilterError::Endless { text, message_id, reason })
    }
}

/// Longer filters are not parsed: no person writes them.
fn within_limits(text: &str) -> Result<(), FilterError> {
    let wrong = |offset: usize, reason: String| {
        let shortened = |text: &str, length: usize| text.chars().take(length).collect::<String>();
        let rest = shortened(&text[offset..], 20);
        let text = format!("{}…", shortened(text, 60));
        Err(FilterError::Compile { text, wrong: Wrong { offset, rest, reason } })
    };
    if text.len() > TEXT_MAX {
        return wrong(0, format!("it has {} bytes, and {TEXT_MAX} are the most", text.len()));
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
fn text_of<'s>(term: &Term<&'s str>) -> Option<&'s str> {
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
