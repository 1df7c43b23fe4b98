//! Running other programs; the one door to the environment.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Why a task did not succeed, for people.
#[derive(Debug)]
pub(crate) struct TaskFailure(pub(crate) String);

/// The value of an environment variable; `None` where it is unset or empty.
#[expect(clippy::disallowed_methods, reason = "xtask's one door to the environment")]
pub(crate) fn env_variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The moment it is, for how long things take.
#[expect(clippy::disallowed_methods, reason = "how long a step takes in real time is what is asked")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The processor time of all processes that this one has started and waited for, and of theirs; zero without Linux's
/// `/proc`. A clock tick there is a hundredth of a second ("proc_pid_stat(5)", Linux manual).
pub(crate) fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in parentheses, may have spaces: the fields after it are counted.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks = fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

/// The workspace's root.
pub(crate) fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the workspace's root")
}

/// Cargo's target directory.
pub(crate) fn target_dir() -> PathBuf {
    env_variable("CARGO_TARGET_DIR")
        .map_or_else(|| workspace_root().join("target"), |directory| workspace_root().join(directory))
}

/// `true` if skips and warnings are failures.
pub(crate) fn is_ci() -> bool {
    env_variable("CI").is_some_and(|value| value != "false")
}

/// The Cargo that runs this, in the workspace's root.
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

/// Runs a program to its end.
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

/// Runs a program to its end, for its standard output.
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

/// Runs `work` on each item, as many at a time as there are processors; the results are in order.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        loop {
            // The lock ends with this statement, so that the others take theirs while this one works.
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

    use super::{processor_time, run_command, side_by_side};

    #[test]
    #[cfg(target_os = "linux")]
    fn child_process_time_counts_after_its_end() {
        let before = processor_time();
        // Its child works, and it waits for that.
        run_command(
            Command::new("sh").args(["-c", "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; :"]),
        )
        .unwrap();
        assert!(processor_time() - before >= Duration::from_millis(10));
    }

    #[test]
    fn each_item_is_worked_on_once_and_the_results_are_in_order() {
        let items: Vec<u32> = (0..1000).collect();
        let results = side_by_side(&items, |item| item * 2);
        assert_eq!(results, (0..1000).map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(side_by_side(&[], |item: &u32| *item), [0; 0]);
    }
}
