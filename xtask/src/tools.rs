//! Runs other programs, and is the only module that reads environment variables.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// The message of a failed task.
#[derive(Debug)]
pub(crate) struct TaskFailure(pub(crate) String);

/// Returns the value of an environment variable, or `None` if it is unset or empty.
#[expect(clippy::disallowed_methods, reason = "xtask's only access to the environment")]
pub(crate) fn env_variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the current time, for measuring durations.
#[expect(clippy::disallowed_methods, reason = "measures how long a step takes in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the processor time of all child processes that have been waited for, including their own children; zero
/// without Linux's `/proc`. A clock tick is a hundredth of a second ("proc_pid_stat(5)", Linux manual).
pub(crate) fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in parentheses, can contain spaces, so fields are counted from its end.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks = fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

/// Returns the root folder of the workspace.
pub(crate) fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder in the workspace's root")
}

/// Returns Cargo's target directory.
pub(crate) fn target_dir() -> PathBuf {
    env_variable("CARGO_TARGET_DIR")
        .map_or_else(|| workspace_root().join("target"), |directory| workspace_root().join(directory))
}

/// Returns true if unlisted skips and warnings are failures.
pub(crate) fn is_ci() -> bool {
    env_variable("CI").is_some_and(|value| value != "false")
}

/// Returns a command for the Cargo that runs this program, in the workspace's root.
pub(crate) fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env_variable("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace_root());
    command
}

pub(crate) fn read_file(path: &Path) -> Result<String, TaskFailure> {
    fs::read_to_string(path).map_err(|error| TaskFailure(format!("{}: {error}", path.display())))
}

pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), TaskFailure> {
    fs::write(path, text).map_err(|error| TaskFailure(format!("{}: {error}", path.display())))
}

/// Runs a program and waits for it to end.
pub(crate) fn run_command(command: &mut Command) -> Result<(), TaskFailure> {
    println!("$ {}", render_command(command));
    let status = command
        .status()
        .map_err(|error| TaskFailure(format!("{} does not start: {error}", render_command(command))))?;
    if status.success() {
        Ok(())
    } else {
        Err(TaskFailure(format!("{} failed: {status}", render_command(command))))
    }
}

/// Runs a program and returns its standard output.
pub(crate) fn command_output(command: &mut Command) -> Result<String, TaskFailure> {
    let output = command
        .output()
        .map_err(|error| TaskFailure(format!("{} does not start: {error}", render_command(command))))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(TaskFailure(format!("{} failed: {}\n{errors}", render_command(command), output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `work` on each item, as many at a time as there are processors. Returns the results in the order of the items.
pub(crate) fn map_in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        loop {
            // The lock is released at the end of this statement, so that other threads can take items during the work.
            let taken = next.lock().expect("nothing panics while it holds this lock").next();
            let Some((place, item)) = taken else { return };
            let result = work(item);
            done.lock().expect("nothing panics while it holds this lock").push((place, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().expect("nothing panics while it holds this lock");
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

pub(crate) fn render_command(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args()).map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{map_in_parallel, processor_time, run_command};

    #[test]
    #[cfg(target_os = "linux")]
    fn processor_time_includes_finished_child_processes() {
        let before = processor_time();
        // The shell waits for its child, which does the work.
        run_command(
            Command::new("sh").args(["-c", "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; :"]),
        )
        .unwrap();
        assert!(processor_time() - before >= Duration::from_millis(10));
    }

    #[test]
    fn each_item_is_processed_once_and_results_keep_their_order() {
        let items: Vec<u32> = (0..1000).collect();
        let results = map_in_parallel(&items, |item| item * 2);
        assert_eq!(results, (0..1000).map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(map_in_parallel(&[], |item: &u32| *item), [0; 0]);
    }
}
