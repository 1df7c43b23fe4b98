//! `--where` and `--edit`: jq, in process, without a way out of it, and within a time limit.

mod absent;
mod compile;
mod verdict;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use jaq_core::data::JustLut;
use jaq_core::load::Arena;
use jaq_core::{Ctx, Vars, unwrap_valr};
use jaq_json::{Val, read};
use thiserror::Error;

pub use absent::Absent;
use absent::Watch;
use compile::compile;
use verdict::{hint, verdict};

/// For one message. A filter that needs longer has no end.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Recursion takes stack; it is only reserved, not used.
const STACK_BYTES: usize = 256 * 1024 * 1024;
#[derive(Debug)]
pub struct Filter {
    text: String,
    jobs: Sender<String>,
    answers: Receiver<Result<Vec<String>, String>>,
    watch: Option<Watch>,
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
    /// It fails on a message.
    #[error("the filter `{text}` fails on message {message_id}: {reason}")]
    Run {
        text: String,
        /// SQS's id of the message.
        message_id: String,
        /// jq's words, without the message's values.
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

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// With the place where it is wrong.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        Ok(Self { watch: Watch::of(text), ..Self::plain(text)? })
    }

    /// Without looking for what it compares.
    fn plain(text: &str) -> Result<Self, FilterError> {
        let (jobs, work) = channel::<String>();
        let (done, answers) = channel();
        let (compiled, outcome) = channel();
        let code = text.to_owned();
        // The filter is not `Send`: it lives where it runs. One that never ends is left behind there.
        let worker = thread::Builder::new().name("filter".to_owned()).stack_size(STACK_BYTES);
        let started = worker.spawn(move || work_on(&code, &work, &compiled, &done));
        let not_started = |reason: String| FilterError::Compile {
            text: text.to_owned(),
            offset: 0,
            rest: String::new(),
            reason,
        };
        started.map_err(|error| not_started(error.to_string()))?;
        outcome.recv().map_err(|error| not_started(error.to_string()))??;
        Ok(Self { text: text.to_owned(), jobs, answers, watch: None })
    }

    /// Whether the filter's first output on a JSON document is `true`; `false`, `null` and no output are no match.
    ///
    /// # Errors
    /// If the filter fails, takes too long, or its first output is none of these: `.a = "x"` changes the message, and what
    /// it gives is no answer. Taken for a yes it would pick every message.
    pub fn matches(&self, message_id: &str, document: String) -> Result<bool, FilterError> {
        // The run takes the document, and only afterwards it is known whether it was picked.
        let seen = self.watch.as_ref().map(|watch| (watch, document.clone()));
        let outputs = self.run(message_id, document)?;
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
        Ok(is_match)
    }

    /// What is worth a second look in what the filter has picked so far.
    #[must_use]
    pub fn absent(&self) -> Option<Absent<'_>> {
        self.watch.as_ref()?.absent()
    }

    /// The filter's only output on a JSON document, as JSON.
    ///
    /// # Errors
    /// If the filter fails, takes too long, or has no output or several.
    pub fn edit(&self, message_id: &str, document: String) -> Result<String, FilterError> {
        let mut outputs = self.run(message_id, document)?;
        match (outputs.pop(), outputs.is_empty()) {
            (Some(output), true) => Ok(output),
            (None, _) => Err(self.failed(message_id, "it has no output; one is needed")),
            (Some(_), false) => Err(self.failed(message_id, "it has several outputs; one is needed")),
        }
    }

    fn run(&self, message_id: &str, document: String) -> Result<Vec<String>, FilterError> {
        let failed = |reason: &str| self.failed(message_id, reason);
        self.jobs.send(document).map_err(|_| failed("it has ended before"))?;
        // Whoever gets an error ends. A filter that is asked again after its time was up would give the late answer to
        // the document before as its answer to this one.
        match self.answers.recv_timeout(TIME_LIMIT) {
            Ok(answer) => answer.map_err(|reason| failed(&reason)),
            Err(RecvTimeoutError::Timeout) => {
                Err(failed(&format!("it takes longer than {} s", TIME_LIMIT.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(failed("it has ended itself")),
        }
    }

    fn failed(&self, message_id: &str, reason: &str) -> FilterError {
        FilterError::Run {
            text: self.text.clone(),
            message_id: message_id.to_owned(),
            reason: reason.to_owned(),
        }
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
    let input = read::parse_single(document.as_bytes()).map_err(|error| error.to_string())?;
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
