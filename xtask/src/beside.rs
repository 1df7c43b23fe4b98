//! Steps that run in the background, as separate processes. They have the lowest priority, so that they do not delay
//! steps that wait for queues.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::tools::{TaskFailure, now, render_command, target_dir};

/// A shell script that runs its arguments, and kills them with all their children when its standard input closes: the
/// kernel closes that pipe however the run ends, even after Ctrl-C. (A shell's background jobs have no standard input,
/// hence descriptor 3.)
const GUARD: &str = r#"
exec 3<&0
"$@" & work=$!
{ read -r _ <&3; kill -s KILL -- "-$$"; } & guard=$!
wait "$work"; status=$?
kill "$guard"
exit "$status"
"#;

/// A program that runs in the background. Dropping it kills the program and all its children.
pub(crate) struct BackgroundProcess {
    child: Child,
    log: PathBuf,
    shown: String,
    started: Instant,
}

impl BackgroundProcess {
    /// Starts a CPU-bound program. Its output is kept in a file with this name under `target/beside/`.
    ///
    /// # Errors
    /// The program does not start.
    pub(crate) fn start(name: &str, command: &Command) -> Result<Self, TaskFailure> {
        let shown = render_command(command);
        let failed = |error: std::io::Error| TaskFailure(format!("{shown} does not start: {error}"));
        let log = target_dir().join("beside").join(format!("{name}.log"));
        fs::create_dir_all(target_dir().join("beside")).map_err(failed)?;
        let file = File::create(&log).map_err(failed)?;
        let mut guarded = Command::new("sh");
        guarded
            .args(["-c", GUARD, "sh", "nice", "-n", "19"])
            .arg(command.get_program())
            .args(command.get_args());
        if let Some(directory) = command.get_current_dir() {
            guarded.current_dir(directory);
        }
        // A separate process group, so that Cargo's compilers and a fuzzer's workers end with the program.
        #[cfg(unix)] // on Windows nothing runs in the background: only the command line is packed there
        std::os::unix::process::CommandExt::process_group(&mut guarded, 0);
        guarded.stdin(Stdio::piped());
        guarded.stdout(file.try_clone().map_err(failed)?).stderr(file);
        let child = guarded.spawn().map_err(failed)?;
        println!("$ {shown}   (in the background)");
        Ok(Self { child, log, shown, started: now() })
    }

    /// Waits for the program to end and prints its output. Returns the time from its start until now, an upper bound on
    /// its duration.
    ///
    /// # Errors
    /// The program failed.
    pub(crate) fn finish(mut self) -> Result<Duration, TaskFailure> {
        let failed = |error: std::io::Error| TaskFailure(format!("{}: {error}", self.shown));
        // `wait` would close the child's standard input, which ends the child.
        let stdin = self.child.stdin.take();
        let status = self.child.wait();
        drop(stdin);
        let status = status.map_err(failed)?;
        print!("{}", fs::read_to_string(&self.log).map_err(failed)?);
        if status.success() {
            Ok(self.started.elapsed())
        } else {
            Err(TaskFailure(format!("{} failed: {status}", self.shown)))
        }
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        // If the program is still running, `wait` closes its standard input.
        let _ignored = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_background_failure_is_reported_like_one_in_the_foreground() {
        let mut shell = Command::new("sh");
        let failed =
            BackgroundProcess::start("a-failure", shell.args(["-c", "echo said; exit 3"])).unwrap().finish();
        let TaskFailure(message) = failed.unwrap_err();
        assert_eq!(message, "sh -c echo said; exit 3 failed: exit status: 3");
        assert_eq!(fs::read_to_string(target_dir().join("beside/a-failure.log")).unwrap(), "said\n");
    }

    #[test]
    fn a_background_program_runs_at_low_priority() {
        BackgroundProcess::start("computes", &Command::new("nice")).unwrap().finish().unwrap();
        let printed = fs::read_to_string(target_dir().join("beside/computes.log")).unwrap();
        assert_eq!(printed, "19\n");
    }

    #[test]
    fn a_background_program_is_killed_when_the_run_ends_early() {
        let mut shell = Command::new("sh");
        // Two processes: the shell and its `sleep`.
        let beside = BackgroundProcess::start("left", shell.args(["-c", "sleep 600; echo never"])).unwrap();
        let group = beside.child.id();
        let is_there = || {
            let mut signal = Command::new("sh");
            let sent = signal.args(["-c", &format!("kill -0 -{group} 2>/dev/null")]).status();
            sent.unwrap().success()
        };
        assert!(is_there());
        drop(beside);
        // A killed process exists until its parent reads its status.
        while is_there() {
            std::thread::yield_now();
        }
    }
}
