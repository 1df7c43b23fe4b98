//! `--where` and `--edit`: jq, in process, without a way out of it, and within a time limit.

mod absent;
mod compile;
mod members;
mod verdict;

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jaq_core::data::JustLut;
use jaq_core::load::Arena;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::Term;
use jaq_core::{Ctx, Vars, unwrap_valr};
use jaq_json::{Val, read};
use thiserror::Error;

pub use absent::Absent;
use absent::Watch;
use compile::compile;
use verdict::{hint, verdict};

use crate::{Choice, surrogates};

/// For one message.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Recursion takes stack; it is only reserved, not used.
const STACK_BYTES: usize = 256 * 1024 * 1024;
/// Runs that are still at it after their time was up, each a thread. A filter with more of them has no end.
const LATE_MAX: usize = 4;

#[derive(Debug)]
pub struct Filter {
    text: String,
    worker: RefCell<Worker>,
    /// Those before it whose time was up.
    late: RefCell<Vec<Worker>>,
    watch: Option<Watch>,
}

/// The thread that a filter lives on, as it is not `Send`. It ends when its work does.
#[derive(Debug)]
struct Worker {
    /// `None`: nothing more is asked of it.
    jobs: Option<Sender<String>>,
    answers: Receiver<Result<Vec<String>, String>>,
    thread: JoinHandle<()>,
}

/// Why a filter cannot be used. The command ends with exit code 2.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    #[error("the filter `{text}` is wrong at byte {offset} (`{rest}`): {reason}")]
    Compile {
        text: String,
        /// Where, in bytes from its start.
        offset: usize,
        rest: String,
        reason: String,
    },
    /// It fails on every message that it has looked at.
    #[error("the filter `{text}` fails on message {message_id}: {reason}")]
    Run {
        text: String,
        /// SQS's id of the first message.
        message_id: String,
        /// jq's words, without the message's values.
        reason: String,
    },
    /// It needs longer than its time, again and again.
    #[error(
        "the filter `{text}` does not come to an end: it takes longer than {} s on {LATE_MAX} messages, the last one {message_id}",
        TIME_LIMIT.as_secs()
    )]
    Endless {
        text: String,
        /// SQS's id of the message.
        message_id: String,
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

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// With the place where it is wrong.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        Ok(Self { watch: Watch::of(text), ..Self::plain(text)? })
    }

    /// Compiles a filter for the documents of dead letters: it may name only members that they have.
    ///
    /// # Errors
    /// With the place where it is wrong.
    pub fn of_dead_letters(text: &str) -> Result<Self, FilterError> {
        members::check(text)?;
        Self::new(text)
    }

    /// Without looking for what it compares.
    fn plain(text: &str) -> Result<Self, FilterError> {
        let worker = RefCell::new(Worker::start(text)?);
        Ok(Self { text: text.to_owned(), worker, late: RefCell::default(), watch: None })
    }

    /// The filter's first output on a JSON document: `true` picks it; `false`, `null` and no output do not. A document on
    /// which the filter fails, or takes too long, is not judged, and says nothing of any other.
    ///
    /// # Errors
    /// If its first output is none of these: `.a = "x"` changes the message, and what it gives is no answer. Taken for a
    /// yes it would pick every message.
    pub fn matches(&self, message_id: &str, document: String) -> Result<Choice, FilterError> {
        // The run takes the document, and only afterwards it is known whether it was picked.
        let seen = self.watch.as_ref().map(|watch| (watch, document.clone()));
        let outputs = match self.run(message_id, document)? {
            Ok(outputs) => outputs,
            Err(why) => return Ok(Choice::NotJudged(why)),
        };
        let verdict = verdict(outputs.first().map(String::as_str));
        let is_match = verdict.map_err(|given| FilterError::NoVerdict {
            text: self.text.clone(),
            message_id: message_id.to_owned(),
            given,
            hint: hint(&self.text),
        })?;
        if let Some((watch, document)) = seen.filter(|_| is_match) {
            watch.note(message_id, document)?;
        }
        Ok(if is_match { Choice::Picked } else { Choice::NotPicked })
    }

    /// What is wrong with a filter that fails on every message, the first of which is this one.
    pub(crate) fn failed_on_all(&self, message_id: String, reason: String) -> FilterError {
        FilterError::Run { text: self.text.clone(), message_id, reason }
    }

    /// What is worth a second look in what the filter has picked so far.
    #[must_use]
    pub fn absent(&self) -> Option<Absent> {
        self.watch.as_ref()?.absent()
    }

    /// The filter's only output on a JSON document, as JSON; the inner error says why there is none for this document.
    ///
    /// # Errors
    /// If the filter does not come to an end.
    pub fn edit(&self, message_id: &str, document: String) -> Result<Result<String, String>, FilterError> {
        Ok(self.run(message_id, document)?.and_then(|mut outputs| {
            match (outputs.pop(), outputs.is_empty()) {
                (Some(output), true) => Ok(output),
                (None, _) => Err("it has no output; one is needed".to_owned()),
                (Some(_), false) => Err("it has several outputs; one is needed".to_owned()),
            }
        }))
    }

    /// The first outputs, or why there are none for this document.
    fn run(&self, message_id: &str, document: String) -> Result<Result<Vec<String>, String>, FilterError> {
        let mut worker = self.worker.borrow_mut();
        let answer = match &worker.jobs {
            Some(jobs) if jobs.send(document).is_ok() => worker.answers.recv_timeout(TIME_LIMIT),
            _ => Err(RecvTimeoutError::Disconnected),
        };
        let why = match answer {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                format!("the filter takes longer than {} s on it", TIME_LIMIT.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => "the filter ends itself on it".to_owned(),
        };
        // Asked again, it would give its late answer to this document as that to the next one.
        let before = std::mem::replace(&mut *worker, Worker::start(&self.text)?);
        let mut late = self.late.borrow_mut();
        late.push(Worker { jobs: None, ..before });
        late.retain(|worker| !worker.thread.is_finished());
        if late.len() >= LATE_MAX {
            return Err(FilterError::Endless { text: self.text.clone(), message_id: message_id.to_owned() });
        }
        Ok(Err(why))
    }
}

impl Worker {
    fn start(text: &str) -> Result<Self, FilterError> {
        let (jobs, work) = channel::<String>();
        let (done, answers) = channel();
        let (compiled, outcome) = channel();
        let code = text.to_owned();
        let builder = thread::Builder::new().name("filter".to_owned()).stack_size(STACK_BYTES);
        let started = builder.spawn(move || work_on(&code, &work, &compiled, &done));
        let not_started = |reason: String| FilterError::Compile {
            text: text.to_owned(),
            offset: 0,
            rest: String::new(),
            reason,
        };
        let thread = started.map_err(|error| not_started(error.to_string()))?;
        outcome.recv().map_err(|error| not_started(error.to_string()))??;
        Ok(Self { jobs: Some(jobs), answers, thread })
    }
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

fn work_on(
    code: &str,
    work: &Receiver<String>,
    compiled: &Sender<Result<(), FilterError>>,
    done: &Sender<Result<Vec<String>, String>>,
) {
    let arena = Arena::default();
    let filter = match compile(code, &arena) {
        Ok(filter) => filter,
        Err(error) => {
            let _nobody_waits = compiled.send(Err(error));
            return;
        }
    };
    let _nobody_waits = compiled.send(Ok(()));
    for document in work {
        let _nobody_waits = done.send(outputs(&filter, &document));
    }
}

fn outputs(filter: &jaq_core::Filter<JustLut<Val>>, document: &str) -> Result<Vec<String>, String> {
    let document = surrogates::replaced(document);
    let input =
        read::parse_single(document.as_bytes()).map_err(|error| format!("jq cannot read it: {error}"))?;
    let context = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let outputs = filter.id.run((context, input)).map(unwrap_valr);
    // Nobody wants more than one; two are enough to say so.
    outputs
        .take(2)
        .map(|output| {
            output.map(|value| value.to_string()).map_err(|error| without_values(&error.to_string()))
        })
        .collect()
}

/// jq's words quote the values that they are about, which are the message's: only what stands around them may be shown.
fn without_values(error: &str) -> String {
    if error.starts_with("cannot use ") {
        // The last word is jq's: the type that was wanted.
        let wanted = error.rsplit(" as ").next().unwrap_or_default();
        return format!("cannot use a value as {wanted}");
    }
    // What is known is said by its beginning alone. Anything else, above all what a filter raises with `error`, may be
    // made of the message, so none of it is shown.
    let known = [
        ("cannot calculate ", "cannot calculate with two values"),
        ("cannot index ", "cannot index a value with another"),
        ("invalid path expression ", "invalid path expression"),
    ];
    let shown = known.into_iter().find(|(start, _)| error.starts_with(start)).map(|(_, shown)| shown);
    shown.unwrap_or("it raises an error, whose text may quote the message").to_owned()
}

#[cfg(test)]
mod tests;
