//! The process that runs a filter. It has no environment but the time zone, little memory, and ends with the program
//! that started it.

use std::io::{BufRead as _, Write, stdin, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use jaq_core::data::JustLut;
use jaq_core::load::Arena;
use jaq_core::{Ctx, Vars, unwrap_valr};
use jaq_json::{Val, read};
use redeliver_platform::process::{leave_no_core_file, limit_memory};
use serde::{Deserialize, Serialize};

use super::compile::compile;
use super::missing_members::{MissingMembers, Watch};
use super::verdict::verdict;
use super::{Wrong, members};
use crate::surrogates;

/// The argument of our program that makes it such a process. A test with this name does it for a crate's tests.
pub(super) const ARGUMENT: &str = "filter_worker";
/// The first line that it writes. A test's program has written others before.
pub(super) const GREETING: &str = "redeliver runs filters here";

/// All of its address space: the stack, the program itself, and what a filter collects. The largest message takes some
/// fifty MiB.
pub(super) const MEMORY_MAX: u64 = 1 << 30;
/// Recursion takes stack; it is only reserved, not used.
const STACK_BYTES: usize = 256 << 20;
/// An output as text. A message has 1 MiB at most; written as JSON, a character may take six bytes.
const OUTPUT_MAX: usize = 8 << 20;

/// The task of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) filter: String,
    /// Only members that dead letters have may be named.
    pub(super) is_of_dead_letters: bool,
}

/// The result of compiling the filter: comparisons of members that may be missing, or an error.
pub(super) type Compiled = Result<Option<MissingMembers>, Wrong>;

/// The result for a document.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The first outputs, or why there are none.
    pub(super) outputs: Result<Vec<String>, String>,
    /// True if the filter picks the message although a compared member is missing.
    pub(super) lacks: bool,
}

/// Runs filters for another process, if this one was started for that; then it does not return. Each program, and each
/// test program, that uses a [`Filter`](crate::Filter) has to call this first.
pub fn serve_filter() {
    if std::env::args_os().nth(1).is_none_or(|argument| argument != ARGUMENT) {
        return;
    }
    // Where the system knows no limit of memory, the time is one. A core file would hold messages.
    limit_memory(MEMORY_MAX);
    leave_no_core_file();
    let (jobs, work) = channel::<String>();
    let worker = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        // After a panic, too, the caller must not wait for an answer forever.
        let worked = catch_unwind(AssertUnwindSafe(|| work_on(&work)));
        std::process::exit(i32::from(worked.is_err()))
    });
    if worker.is_err() {
        std::process::exit(1);
    }
    // The process ends when its caller is gone, whatever the filter is doing.
    stdin().lock().lines().map_while(Result::ok).all(|line| jobs.send(line).is_ok());
    std::process::exit(0)
}

fn work_on(work: &Receiver<String>) {
    let mut stdout = stdout().lock();
    let mut say = |line: String| writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if say(GREETING.to_owned()).is_err() {
        return;
    }
    let task = work.recv().ok().and_then(|line| serde_json::from_str::<Task>(&line).ok());
    let Some(task) = task else { return };
    let (arena, arena_of_watch) = (Arena::default(), Arena::default());
    let known = if task.is_of_dead_letters { members::check(&task.filter) } else { Ok(()) };
    let filter = known.and_then(|()| compile(&task.filter, &arena));
    let watch = Watch::of(&task.filter);
    let is_absent = watch.as_ref().and_then(|watch| compile(&watch.is_absent, &arena_of_watch).ok());
    let absent = watch.filter(|_| is_absent.is_some()).map(|watch| watch.absent);
    let compiled: Compiled = filter.as_ref().map(|_| absent).map_err(Clone::clone);
    let (Ok(()), Ok(filter)) = (say(json(&compiled)), filter) else { return };
    let judge = |document: &str| {
        let outputs = outputs(&filter, document);
        let is_picked =
            || outputs.as_ref().is_ok_and(|found| verdict(found.first().map(String::as_str)) == Ok(true));
        let lacks = is_absent.as_ref().is_some_and(|is_absent| {
            is_picked() && self::outputs(is_absent, document).is_ok_and(|found| found == ["true"])
        });
        Answer { outputs, lacks }
    };
    for line in work {
        let document = serde_json::from_str::<String>(&line).unwrap_or_default();
        // jaq and what it uses may panic, as of times that are far away.
        let answer = catch_unwind(AssertUnwindSafe(|| judge(&document)))
            .unwrap_or_else(|_| Answer { outputs: Err("the filter fails on it".to_owned()), lacks: false });
        if say(json(&answer)).is_err() {
            return;
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists of them are JSON")
}

fn outputs(filter: &jaq_core::Filter<JustLut<Val>>, document: &str) -> Result<Vec<String>, String> {
    let document = surrogates::replaced(document);
    let input =
        read::parse_single(document.as_bytes()).map_err(|error| format!("jq cannot read it: {error}"))?;
    let context = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let outputs = filter.id.run((context, input)).map(unwrap_valr);
    // One output is an answer; two are enough for an error.
    outputs
        .take(2)
        .map(|output| {
            let output =
                output.map(|value| value.to_string()).map_err(|error| without_values(&error.to_string()))?;
            if output.len() > OUTPUT_MAX {
                Err(format!("its output has more than {} MiB", OUTPUT_MAX >> 20))
            } else {
                Ok(output)
            }
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
    // Shows only beginnings of known errors. Other text, such as that of `error`, may contain parts of the message.
    let known = [
        ("cannot calculate ", "cannot calculate with two values"),
        ("cannot index ", "cannot index a value with another"),
        ("invalid path expression ", "invalid path expression"),
    ];
    let shown = known.into_iter().find(|(start, _)| error.starts_with(start)).map(|(_, shown)| shown);
    shown.unwrap_or("it raises an error, whose text may quote the message").to_owned()
}
