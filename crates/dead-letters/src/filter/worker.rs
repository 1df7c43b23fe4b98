//! The thread that runs a filter. A filter is a program that may run forever, and a thread cannot be killed. The caller
//! therefore waits for a limited time, and then abandons a thread that has not responded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use jaq_core::data::JustLut;
use jaq_core::load::Arena;
use jaq_core::{Ctx, Vars, unwrap_valr};
use jaq_json::{Val, read};
use redeliver_core::lock;

use super::compile::compile_filter;
use super::missing_members::{MissingMemberWatch, MissingMembers};
use super::verdict::parse_verdict;
use super::{FilterError, FilterSyntaxError, members};
use crate::surrogates;

/// The time limit for compiling a filter; sufficient even on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The stack is large because filters recurse. It is only reserved, not committed. A stack overflow terminates the
/// program.
const STACK_BYTES: usize = 256 << 20;
/// The maximum number of abandoned threads that are still running; each of them may occupy a CPU core.
pub(super) const ABANDONED_MAX: usize = 8;
/// The maximum size of an output, in bytes. A message is at most 1 MiB, and a character can take six bytes in JSON.
const OUTPUT_BYTES_MAX: usize = 8 << 20;

/// The abandoned threads of this process.
static ABANDONED_THREADS: Mutex<Vec<Weak<()>>> = Mutex::new(Vec::new());

/// A filter as written by its author.
#[derive(Clone, Debug)]
pub(super) struct FilterTask {
    pub(super) text: String,
    /// True to allow only members that dead letters have.
    pub(super) is_for_dead_letters: bool,
}

/// Comparisons with members that may be missing, or the reason why the filter does not compile.
type CompileResult = Result<Option<MissingMembers>, FilterSyntaxError>;

/// The result for a document.
#[derive(Debug)]
pub(super) struct FilterOutput {
    /// The first outputs, or the reason why there are none.
    pub(super) outputs: Result<Vec<String>, String>,
    /// True if the filter picks the message although a compared member is missing.
    pub(super) lacks_member: bool,
}

/// A document and a separate channel for its output, so that a late output cannot be mistaken for the next document's.
#[derive(Debug)]
pub(super) struct FilterRequest {
    document: String,
    answer: Sender<FilterOutput>,
}

/// A thread with a compiled filter. The thread ends once this is dropped and the last document is judged.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) requests: Sender<FilterRequest>,
    /// Can no longer be upgraded once the thread has ended.
    pub(super) running: Weak<()>,
}

/// A worker whose filter is compiled.
pub(super) struct StartedWorker {
    pub(super) worker: Worker,
    /// Comparisons with members that may be missing.
    pub(super) missing: Option<MissingMembers>,
}

impl Worker {
    /// Compiles a filter in a new thread, since parsing also needs a large stack.
    pub(super) fn start(task: &FilterTask) -> Result<StartedWorker, FilterError> {
        let not_started_error = |reason: String| FilterError::NotStarted { text: task.text.clone(), reason };
        if count_abandoned() >= ABANDONED_MAX {
            return Err(not_started_error(format!(
                "{ABANDONED_MAX} earlier runs of a filter are still running and cannot be stopped: restart redeliver"
            )));
        }
        let (requests, incoming) = channel();
        let (compiled, compiles) = channel();
        let alive = Arc::new(());
        let worker = Self { requests, running: Arc::downgrade(&alive) };
        let run = {
            let task = task.clone();
            move || {
                let _alive = alive;
                run_worker(&task, &compiled, &incoming);
            }
        };
        let thread = thread::Builder::new().name("filter".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(run).map_err(|error| not_started_error(error.to_string()))?;
        match compiles.recv_timeout(START_LIMIT) {
            Ok(Ok(missing)) => Ok(StartedWorker { worker, missing }),
            Ok(Err(syntax_error)) => Err(FilterError::Compile { text: task.text.clone(), syntax_error }),
            Err(RecvTimeoutError::Timeout) => {
                worker.abandon();
                Err(not_started_error(format!("it does not compile within {} s", START_LIMIT.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(not_started_error("jq fails on it".to_owned())),
        }
    }

    /// Runs the filter on a document. Returns `None` after a timeout; the worker is then no longer usable.
    pub(super) fn run_on_document(&self, document: &str, limit: Duration) -> Option<FilterOutput> {
        let (answer, answers) = channel();
        self.requests.send(FilterRequest { document: document.to_owned(), answer }).ok()?;
        answers.recv_timeout(limit).ok()
    }

    /// Counts the thread as abandoned until it ends on its own.
    pub(super) fn abandon(&self) {
        lock(&ABANDONED_THREADS).push(Weak::clone(&self.running));
    }
}

/// Returns the number of abandoned threads that are still running.
pub(super) fn count_abandoned() -> usize {
    let mut threads = lock(&ABANDONED_THREADS);
    threads.retain(|running| running.strong_count() > 0);
    threads.len()
}

fn run_worker(task: &FilterTask, compiled: &Sender<CompileResult>, requests: &Receiver<FilterRequest>) {
    let (arena, arena_of_watch) = (Arena::default(), Arena::default());
    let known = if task.is_for_dead_letters { members::check_members(&task.text) } else { Ok(()) };
    let filter = match known.and_then(|()| compile_filter(&task.text, &arena)) {
        Ok(filter) => filter,
        Err(wrong) => return drop(compiled.send(Err(wrong))),
    };
    let watch = MissingMemberWatch::from_filter(&task.text);
    let absence_filter =
        watch.as_ref().and_then(|watch| compile_filter(&watch.lacks_member, &arena_of_watch).ok());
    let missing = watch.filter(|_| absence_filter.is_some()).map(|watch| watch.comparisons);
    if compiled.send(Ok(missing)).is_err() {
        return;
    }
    let judge = |document: &str| {
        let outputs = collect_outputs(&filter, document);
        let is_picked = || {
            outputs.as_ref().is_ok_and(|found| parse_verdict(found.first().map(String::as_str)) == Ok(true))
        };
        let lacks_member = absence_filter.as_ref().is_some_and(|absence_filter| {
            is_picked()
                && self::collect_outputs(absence_filter, document).is_ok_and(|found| found == ["true"])
        });
        FilterOutput { outputs, lacks_member }
    };
    for FilterRequest { document, answer } in requests {
        // jaq and its dependencies can panic, for example on dates in the distant past or future.
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&document))).unwrap_or_else(|_| FilterOutput {
            outputs: Err("the filter fails on it".to_owned()),
            lacks_member: false,
        });
        let _too_late = answer.send(judged);
    }
}

fn collect_outputs(filter: &jaq_core::Filter<JustLut<Val>>, document: &str) -> Result<Vec<String>, String> {
    let document = surrogates::replace_surrogates(document);
    let input =
        read::parse_single(document.as_bytes()).map_err(|error| format!("jq cannot read it: {error}"))?;
    let context = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let outputs = filter.id.run((context, input)).map(unwrap_valr);
    // One output is a valid result; two suffice to detect an error.
    outputs
        .take(2)
        .map(|output| {
            let output =
                output.map(|value| value.to_string()).map_err(|error| redact_values(&error.to_string()))?;
            if output.len() > OUTPUT_BYTES_MAX {
                Err(format!("its output has more than {} MiB", OUTPUT_BYTES_MAX >> 20))
            } else {
                Ok(output)
            }
        })
        .collect()
}

/// Removes values from an error: jq's error messages quote values from the message, and only the text around them may
/// be shown.
fn redact_values(error: &str) -> String {
    if error.starts_with("cannot use ") {
        // The last word, the expected type, comes from jq and not from the message.
        let expected = error.rsplit(" as ").next().unwrap_or_default();
        return format!("cannot use a value as {expected}");
    }
    // Only known errors are shown. Any other text, such as the argument of `error`, may contain parts of the message.
    let known = [
        ("cannot calculate ", "cannot calculate with two values"),
        ("cannot index ", "cannot index a value with another"),
        ("invalid path expression ", "invalid path expression"),
    ];
    let shown = known.into_iter().find(|(start, _)| error.starts_with(start)).map(|(_, shown)| shown);
    shown.unwrap_or("it raises an error, whose text may quote the message").to_owned()
}
