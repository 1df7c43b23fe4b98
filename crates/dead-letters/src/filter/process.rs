//! The process that runs a filter, as the one who asks sees it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use redeliver_core::lock;
use redeliver_platform::process::{apart, own_program, processor_time, was_full};
use serde::de::DeserializeOwned;

use super::worker::{ARGUMENT, Answer, Compiled, GREETING, Task};
use super::{FilterError, MissingMembers, Wrong};

/// For one message, of processor time; where that cannot be read, of time.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// For one message, of time: the processors may be busy with other things.
const WAIT_LIMIT: Duration = Duration::from_secs(20);
/// The pause between two checks of the processor time.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// For a start, on a machine that is busy with other things.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Held while a process is started: until its first output, it may have a copy of each open file and its lock.
static STARTING: Mutex<()> = Mutex::new(());

/// Runs a function while no process is being started: a new process could keep a lock of a file that is closed.
pub(crate) fn while_none_starts<T>(act: impl FnOnce() -> T) -> T {
    let _guard = lock(&STARTING);
    act()
}

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It took longer than this.
    Late(Duration),
    /// Its process has ended; within a message, because it took more memory or stack than it may have.
    Itself,
}

/// Ended for good when it is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    pub(super) fn start(task: &Task) -> Result<(Self, Option<MissingMembers>), FilterError> {
        let wrong = |wrong: Wrong| FilterError::Compile { text: task.filter.clone(), wrong };
        let not_started = |reason: String| FilterError::NotStarted { text: task.filter.clone(), reason };
        let started = while_none_starts(|| {
            let process = Self::spawn()?;
            let greeted = process.greeted();
            Ok((process, greeted))
        });
        let (mut process, greeted) =
            started.map_err(|error: std::io::Error| not_started(error.to_string()))?;
        let compiled = greeted.and_then(|()| process.compiled(task));
        match compiled {
            Ok(compiled) => Ok((process, compiled.map_err(wrong)?)),
            Err(Ended::Late(limit)) => Err(not_started(format!("no answer within {} s", limit.as_secs()))),
            Err(Ended::Itself) => match process.end() {
                Ok(status) if greeted.is_ok() && was_full(status) => Err(wrong(Wrong {
                    offset: 0,
                    rest: task.filter.chars().take(20).collect(),
                    reason: "it is nested too deep".to_owned(),
                })),
                Ok(status) => Err(not_started(format!("its process ended with {status}"))),
                Err(error) => Err(not_started(error.to_string())),
            },
        }
    }

    fn spawn() -> std::io::Result<Self> {
        let mut command = own_program()?;
        // A test's program takes the argument for the name of a test, and the others are so that it says nothing else.
        command.args([ARGUMENT, "--exact", "--nocapture"]);
        command.env_clear();
        #[expect(clippy::disallowed_methods, reason = "no setting of ours: the user's, for local times")]
        command.envs(std::env::var_os("TZ").map(|zone| ("TZ", zone)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C is for the program, which may have to judge the messages that it has.
        apart(&mut command);
        let mut child = command.spawn()?;
        let (Some(questions), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("it has no pipes"));
        };
        let (lines, answers) = channel();
        let process = Self { child, questions, answers };
        thread::Builder::new().name("filter".to_owned()).spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).all(|line| lines.send(line).is_ok())
        })?;
        Ok(process)
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The filter's answer on a document.
    pub(super) fn ask(&mut self, document: &str) -> Result<Answer, Ended> {
        self.say(&document).map_err(|_| Ended::Itself)?;
        let id = self.child.id();
        let line = in_time(|limit| self.line(limit), || processor_time(id))?;
        parsed(&line)
    }

    fn compiled(&mut self, task: &Task) -> Result<Compiled, Ended> {
        self.say(task).map_err(|_| Ended::Itself)?;
        parsed(&self.line(START_LIMIT)?)
    }

    fn say(&mut self, question: &impl serde::Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(question)?;
        line.push(b'\n');
        self.questions.write_all(&line)
    }

    /// Waits for what it says first; other programs' lines may stand before that.
    fn greeted(&self) -> Result<(), Ended> {
        while self.line(START_LIMIT)? != GREETING {}
        Ok(())
    }

    fn line(&self, limit: Duration) -> Result<String, Ended> {
        self.answers.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => Ended::Late(limit),
            RecvTimeoutError::Disconnected => Ended::Itself,
        })
    }
    /// If it has ended already, its own status.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        let _ended = self.child.kill();
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _reaped = self.end();
    }
}

fn parsed<T: DeserializeOwned>(line: &str) -> Result<T, Ended> {
    serde_json::from_str(line).map_err(|_| Ended::Itself)
}

/// The next line, if it comes in time. A machine that is busy with other things makes no filter late.
fn in_time(
    line: impl Fn(Duration) -> Result<String, Ended>,
    processor_time: impl Fn() -> Option<Duration>,
) -> Result<String, Ended> {
    let mut waited = Duration::ZERO;
    let mut first = None;
    while waited < WAIT_LIMIT {
        match line(LOOK_INTERVAL) {
            Err(Ended::Late(_)) => waited += LOOK_INTERVAL,
            line_or_end => return line_or_end,
        }
        let taken = match processor_time() {
            // Most messages are judged before the first look, and cost none.
            Some(now) => now.saturating_sub(*first.get_or_insert(now)),
            None => waited,
        };
        if taken >= TIME_LIMIT {
            return Err(Ended::Late(TIME_LIMIT));
        }
    }
    Err(Ended::Late(WAIT_LIMIT))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Asks a filter that answers after `looks` looks, each of which finds `each` more processor time.
    fn answer_after(looks: u32, each: Option<Duration>) -> Result<String, Ended> {
        let looked = Cell::new(0);
        let line = |limit| {
            if looked.get() == looks { Ok("true".to_owned()) } else { Err(Ended::Late(limit)) }
        };
        in_time(line, || {
            looked.set(looked.get() + 1);
            each.map(|each| each * looked.get())
        })
    }

    #[test]
    fn a_machine_that_is_busy_makes_no_filter_late() {
        let some = Some(Duration::from_millis(5));
        assert_eq!(answer_after(199, some), Ok("true".to_owned()));
        assert_eq!(answer_after(200, some), Err(Ended::Late(Duration::from_secs(20))));
    }

    #[test]
    fn a_filter_may_take_a_second_of_processor_time_or_of_time_where_that_is_not_known() {
        for (each, looks) in [(Some(LOOK_INTERVAL), 10), (None, 9), (Some(2 * LOOK_INTERVAL), 5)] {
            assert_eq!(answer_after(looks, each), Ok("true".to_owned()), "{each:?}");
            assert_eq!(answer_after(looks + 1, each), Err(Ended::Late(Duration::from_secs(1))), "{each:?}");
        }
    }
}
