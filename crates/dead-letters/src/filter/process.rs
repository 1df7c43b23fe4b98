//! The process that runs a filter, as the one who asks sees it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::FilterError;
use super::worker::{ARGUMENT, Answer, Compared, Compiled, GREETING, Task};

/// For one message.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(1);
/// For a start, on a machine that is busy with other things.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Held while a process is started: until it has said something it may have a copy of each open file, and so of each
/// lock on one.
static STARTING: Mutex<()> = Mutex::new(());

/// Does something while no process is being started, which would keep a file locked that nobody has open any more.
pub(crate) fn while_none_starts<T>(act: impl FnOnce() -> T) -> T {
    let _guard = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    act()
}

/// Why there is no answer.
pub(super) enum Ended {
    Late,
    /// It took more memory or stack than it may have.
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
    pub(super) fn start(task: &Task) -> Result<(Self, Option<Compared>), FilterError> {
        let text = || task.filter.clone();
        let not_started = |reason: String| FilterError::NotStarted { text: text(), reason };
        let started = while_none_starts(|| {
            let mut process = Self::spawn()?;
            process.say(task)?;
            let compiled = process.first::<Compiled>();
            Ok((process, compiled))
        });
        let (process, compiled) = started.map_err(|error: std::io::Error| not_started(error.to_string()))?;
        match compiled {
            Ok(Compiled::Ready(compared)) => Ok((process, compared)),
            Ok(Compiled::Wrong { offset, rest, reason }) => {
                Err(FilterError::Compile { text: text(), offset, rest, reason })
            }
            Err(Ended::Late) => Err(not_started(format!("no answer within {} s", START_LIMIT.as_secs()))),
            Err(Ended::Itself) => Err(FilterError::Compile {
                text: text(),
                offset: 0,
                rest: task.filter.chars().take(20).collect(),
                reason: "it is nested too deep".to_owned(),
            }),
        }
    }

    fn spawn() -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // A test's program takes the argument for the name of a test, and the others are so that it says nothing else.
        command.args([ARGUMENT, "--exact", "--nocapture"]);
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C is for the program, which may have to judge the messages that it has.
        command.process_group(0);
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

    /// What the filter says of a document.
    pub(super) fn ask(&mut self, document: &str) -> Result<Answer, Ended> {
        self.say(&document).map_err(|_| Ended::Itself)?;
        self.next(TIME_LIMIT)
    }

    fn say(&mut self, question: &impl serde::Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(question)?;
        line.push(b'\n');
        self.questions.write_all(&line)
    }

    /// What it says first; other programs' lines may stand before that.
    fn first<T: DeserializeOwned>(&self) -> Result<T, Ended> {
        loop {
            let line = self.line(START_LIMIT)?;
            if line == GREETING {
                return self.next(START_LIMIT);
            }
        }
    }

    fn next<T: DeserializeOwned>(&self, limit: Duration) -> Result<T, Ended> {
        serde_json::from_str(&self.line(limit)?).map_err(|_| Ended::Itself)
    }

    fn line(&self, limit: Duration) -> Result<String, Ended> {
        self.answers.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => Ended::Late,
            RecvTimeoutError::Disconnected => Ended::Itself,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
