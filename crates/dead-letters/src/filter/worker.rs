//! The thread that runs a filter. A filter is a program that may run forever, and a thread cannot be killed. So the
//! caller waits for a limited time, and then abandons a thread that has not responded.

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

/// The time limit for compiling a filter, even on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The stack is large since filters recurse; it is only reserved, not committed. A stack overflow terminates the
/// program.
const STACK_BYTES: usize = 256 << 20;
/// Limit on abandoned threads that are still running; each may occupy a CPU core.
pub(super) const ABANDONED_MAX: usize = 8;
/// Limit on the bytes of an output. A message is at most 1 MiB, and a character may take six bytes in JSON.
const OUTPUT_MAX: usize = 8 << 20;

/// The threads of this process that were abandoned.
static ABANDONED: Mutex<Vec<Weak<()>>> = Mutex::new(Vec::new());

/// A filter as written by its author.
#[derive(Clone, Debug)]
pub(super) struct FilterTask {
    pub(super) text: String,
    /// True to allow only members that dead letters have.
    pub(super) is_of_dead_letters: bool,
}

/// Comparisons of members that may be missing, or the reason why the filter does not compile.
type Compiled = Result<Option<MissingMembers>, FilterSyntaxError>;

/// The result for a document.
#[derive(Debug)]
pub(super) struct FilterOutput {
    /// The first outputs, or the reason for having none.
    pub(super) outputs: Result<Vec<String>, String>,
    /// True if the filter picks the message although a compared member is missing.
    pub(super) lacks: bool,
}

/// A document, and the channel for its own answer, so that a late answer cannot be mistaken for the next document's.
#[derive(Debug)]
pub(super) struct Question {
    document: String,
    answer: Sender<FilterOutput>,
}

/// A thread with a compiled filter. The thread ends once this is dropped and the last document is judged.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) questions: Sender<Question>,
    /// Can no longer be upgraded once the thread has ended.
    pub(super) running: Weak<()>,
}

/// A worker whose filter is compiled.
pub(super) struct StartedWorker {
    pub(super) worker: Worker,
    /// Comparisons of members that may be missing.
    pub(super) missing: Option<MissingMembers>,
}

impl Worker {
    /// Compiles a filter in a new thread, since parsing needs stack, too.
    pub(super) fn start(task: &FilterTask) -> Result<StartedWorker, FilterError> {
        let not_started = |reason: String| FilterError::NotStarted { text: task.text.clone(), reason };
        if count_abandoned() >= ABANDONED_MAX {
            return Err(not_started(format!(
                "{ABANDONED_MAX} earlier runs of a filter are still running and cannot be stopped: restart redeliver"
            )));
        }
        let (questions, asked) = channel();
        let (compiled, compiles) = channel();
        let alive = Arc::new(());
        let worker = Self { questions, running: Arc::downgrade(&alive) };
        let run = {
            let task = task.clone();
            move || {
                let _alive = alive;
                run_worker(&task, &compiled, &asked);
            }
        };
        let thread = thread::Builder::new().name("filter".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(run).map_err(|error| not_started(error.to_string()))?;
        match compiles.recv_timeout(START_LIMIT) {
            Ok(Ok(missing)) => Ok(StartedWorker { worker, missing }),
            Ok(Err(wrong)) => Err(FilterError::Compile { text: task.text.clone(), wrong }),
            Err(RecvTimeoutError::Timeout) => {
                worker.abandon();
                Err(not_started(format!("it does not compile within {} s", START_LIMIT.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(not_started("jq fails on it".to_owned())),
        }
    }

    /// Runs the filter on a document; `None` after a timeout, when the worker is no longer usable.
    pub(super) fn run_document(&self, document: &str, limit: Duration) -> Option<FilterOutput> {
        let (answer, answers) = channel();
        self.questions.send(Question { document: document.to_owned(), answer }).ok()?;
        answers.recv_timeout(limit).ok()
    }

    /// Counts the thread as abandoned until it ends by itself.
    pub(super) fn abandon(&self) {
        lock(&ABANDONED).push(Weak::clone(&self.running));
    }
}

/// The number of abandoned threads that are still running.
pub(super) fn count_abandoned() -> usize {
    let mut threads = lock(&ABANDONED);
    threads.retain(|running| running.strong_count() > 0);
    threads.len()
}

fn run_worker(task: &FilterTask, compiled: &Sender<Compiled>, questions: &Receiver<Question>) {
    let (arena, arena_of_watch) = (Arena::default(), Arena::default());
    let known = if task.is_of_dead_letters { members::check_members(&task.text) } else { Ok(()) };
    let filter = match known.and_then(|()| compile_filter(&task.text, &arena)) {
        Ok(filter) => filter,
        Err(wrong) => return drop(compiled.send(Err(wrong))),
    };
    let watch = MissingMemberWatch::from_filter(&task.text);
    let is_absent = watch.as_ref().and_then(|watch| compile_filter(&watch.is_absent, &arena_of_watch).ok());
    let missing = watch.filter(|_| is_absent.is_some()).map(|watch| watch.absent);
    if compiled.send(Ok(missing)).is_err() {
        return;
    }
    let judge = |document: &str| {
        let outputs = collect_outputs(&filter, document);
        let is_picked = || {
            outputs.as_ref().is_ok_and(|found| parse_verdict(found.first().map(String::as_str)) == Ok(true))
        };
        let lacks = is_absent.as_ref().is_some_and(|is_absent| {
            is_picked() && self::collect_outputs(is_absent, document).is_ok_and(|found| found == ["true"])
        });
        FilterOutput { outputs, lacks }
    };
    for Question { document, answer } in questions {
        // jaq and its dependencies may panic, for example on dates in the distant past or future.
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&document))).unwrap_or_else(|_| FilterOutput {
            outputs: Err("the filter fails on it".to_owned()),
            lacks: false,
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
            if output.len() > OUTPUT_MAX {
                Err(format!("its output has more than {} MiB", OUTPUT_MAX >> 20))
            } else {
                Ok(output)
            }
        })
        .collect()
}

/// jq's error texts quote values of the message: only the text around them may be shown.
fn redact_values(error: &str) -> String {
    if error.starts_with("cannot use ") {
        // The last word, the expected type, comes from jq and not from the message.
        let wanted = error.rsplit(" as ").next().unwrap_or_default();
        return format!("cannot use a value as {wanted}");
    }
    // Shows only beginnings of known errors. Other text, such as that of `error`, may contain parts of the message.
    let known = [
        ("cannot calculate ", "cannot calculate with two values"),
        ("cannot index ", "cannot index a value with another"),
        ("invalid path expression ", "invalid path expression"),
    ];
    let shown = known.into_iter().find(|(start, _)| error.starts_with(start)).map(|(_, shown)| shown);
    shown.unwrap_or("it raises an error, whose text may quote the message").to_owned()
}
