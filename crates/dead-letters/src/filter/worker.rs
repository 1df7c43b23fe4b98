//! The thread that runs a filter. A filter is a program: it may run for ever, and nothing can end a thread. So the caller
//! waits for a limited time, and leaves a thread that has not answered by then to itself.

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

/// For compiling a filter, on a machine that is busy with other things.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Recursion takes stack; it is only reserved, not used. A full stack ends the whole program.
const STACK_BYTES: usize = 256 << 20;
/// Abandoned threads that may run at the same time. Each of them may take a processor.
pub(super) const ABANDONED_MAX: usize = 8;
/// An output as text. A message has 1 MiB at most; written as JSON, a character may take six bytes.
const OUTPUT_MAX: usize = 8 << 20;

/// The threads of this process that were abandoned.
static ABANDONED: Mutex<Vec<Weak<()>>> = Mutex::new(Vec::new());

/// A filter, as its author wrote it.
#[derive(Clone, Debug)]
pub(super) struct FilterTask {
    pub(super) text: String,
    /// Only members that dead letters have may be named.
    pub(super) is_of_dead_letters: bool,
}

/// Comparisons of members that may be missing, or the reason why the filter does not compile.
type Compiled = Result<Option<MissingMembers>, FilterSyntaxError>;

/// The result for a document.
#[derive(Debug)]
pub(super) struct FilterOutput {
    /// The first outputs, or why there are none.
    pub(super) outputs: Result<Vec<String>, String>,
    /// True if the filter picks the message although a compared member is missing.
    pub(super) lacks: bool,
}

/// A document, and the way back for its answer alone: a late one cannot be taken for that to the next document.
#[derive(Debug)]
pub(super) struct Question {
    document: String,
    answer: Sender<FilterOutput>,
}

/// A thread with a compiled filter. It ends when this is dropped and its last document is judged.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) questions: Sender<Question>,
    /// Gone when the thread has ended.
    pub(super) running: Weak<()>,
}

/// A worker whose filter is compiled.
pub(super) struct StartedWorker {
    pub(super) worker: Worker,
    /// Comparisons of members that may be missing.
    pub(super) missing: Option<MissingMembers>,
}

impl Worker {
    /// Compiles a filter in a new thread, since parsing takes stack, too.
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

    /// The filter's answer on a document; `None` if it takes longer than this. Then the worker is of no further use.
    pub(super) fn run_document(&self, document: &str, limit: Duration) -> Option<FilterOutput> {
        let (answer, answers) = channel();
        self.questions.send(Question { document: document.to_owned(), answer }).ok()?;
        answers.recv_timeout(limit).ok()
    }

    /// Counts the thread until it ends by itself.
    pub(super) fn abandon(&self) {
        lock(&ABANDONED).push(Weak::clone(&self.running));
    }
}

/// Abandoned threads that still run.
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
        // jaq and what it uses may panic, as of times that are far away.
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
    // One output is an answer; two are enough for an error.
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

/// jq's words quote the values that they are about, which are the message's: only what stands around them may be shown.
fn redact_values(error: &str) -> String {
    if error.starts_with("cannot use ") {
        // The last word is jq's: the type that was wanted.
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
