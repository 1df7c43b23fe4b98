//! `cargo xtask bench local`: `redeliver local` on ten thousand, a hundred thousand and a million messages: how time and
//! memory grow.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::median;
use crate::tools::{Failure, cargo, now, run, target_dir};

const MESSAGES: [u32; 3] = [10_000, 100_000, 1_000_000];
/// Of all attempts.
const FAIL_RATE: &str = "0.3";
const ROUNDS: usize = 3;
/// Between two looks at the process. What it used at most is known from the last look that saw it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// `/proc/PID/stat` counts in hundredths of a second ("proc_pid_stat(5)").
const TICKS_PER_SECOND: f64 = 100.0;

/// What one run took.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    seconds: f64,
    processor_seconds: f64,
    peak_kib: f64,
}

pub(super) fn local() -> Result<(), Failure> {
    run(&mut cargo(&["build", "--release", "--bin", "redeliver"]))?;
    let inputs = MESSAGES.iter().map(|count| input(*count)).collect::<Result<Vec<_>, _>>()?;
    let mut rounds: Vec<Vec<Cost>> = vec![Vec::new(); MESSAGES.len()];
    for _ in 0..ROUNDS {
        for (costs, input) in rounds.iter_mut().zip(&inputs) {
            costs.push(cost_of(input)?);
        }
    }
    let middle = |costs: &[Cost], of: fn(&Cost) -> f64| median(costs.iter().map(of).collect());
    println!(
        "\n{:>10} {:>12} {:>24} {:>12} {:>20}",
        "messages", "messages/s", "messages/s of processor", "peak memory", "bytes a message more"
    );
    let mut before: Option<(f64, f64)> = None;
    for (count, costs) in MESSAGES.iter().zip(&rounds) {
        let messages = f64::from(*count);
        let peak = middle(costs, |cost| cost.peak_kib) * 1024.0;
        let more = before.map_or(String::new(), |(messages_before, peak_before)| {
            format!("{:.0}", (peak - peak_before) / (messages - messages_before))
        });
        println!(
            "{count:>10} {:>12.0} {:>24.0} {:>8.0} MiB {more:>20}",
            messages / middle(costs, |cost| cost.seconds),
            messages / middle(costs, |cost| cost.processor_seconds),
            peak / f64::from(1 << 20),
        );
        before = Some((messages, peak));
    }
    inputs.iter().try_for_each(fs::remove_file).map_err(|error| Failure(format!("the inputs: {error}")))
}

/// A file of orders with ids of their own, about 300 bytes each.
fn input(count: u32) -> Result<PathBuf, Failure> {
    let path = target_dir().join(format!("bench-local-{count}.jsonl"));
    let written = File::create(&path).and_then(|file| {
        let mut file = BufWriter::new(file);
        for number in 0..count {
            writeln!(file, "{}", message(number))?;
        }
        file.flush()
    });
    written.map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    Ok(path)
}

fn message(number: u32) -> String {
    let note = "x".repeat(160);
    format!(
        r#"{{"metadata":{{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-{number:012x}"}},"data":{{"order":"DE-{number}","lines":[{{"sku":"SKU-1","quantity":2}}],"note":"{note}"}}}}"#
    )
}

/// Runs the program on an input, and watches it.
fn cost_of(input: &Path) -> Result<Cost, Failure> {
    let mut command = Command::new(target_dir().join("release/redeliver"));
    command.arg("local").arg(input).args(["--fail-rate", FAIL_RATE]).stdout(Stdio::null());
    let started = now();
    let failure = |error: std::io::Error| Failure(format!("redeliver local: {error}"));
    let mut child = command.spawn().map_err(failure)?;
    let mut cost = Cost::default();
    while is_running(&child, &mut cost) {
        sleep(BETWEEN_LOOKS);
    }
    cost.seconds = started.elapsed().as_secs_f64();
    let status = child.wait().map_err(failure)?;
    if status.success() { Ok(cost) } else { Err(Failure(format!("redeliver local failed: {status}"))) }
}

/// Whether it has not ended yet; what it has used until now. A process that has ended still says how much of the processor it
/// took, until somebody waits for it.
fn is_running(child: &Child, cost: &mut Cost) -> bool {
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap_or_default();
    if let Some(peak) = peak_kib(&of("status")) {
        cost.peak_kib = peak;
    }
    match state_and_seconds(&of("stat")) {
        Some((state, seconds)) => {
            cost.processor_seconds = seconds;
            state != "Z"
        }
        None => false,
    }
}

/// `VmHWM` of `/proc/PID/status`: the most memory it has had.
fn peak_kib(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The state and the processor time of `/proc/PID/stat`. The name before them may hold anything, brackets too.
fn state_and_seconds(stat: &str) -> Option<(&str, f64)> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((fields.first()?, (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_used_is_read_from_proc() {
        let stat = "4711 (a) b (c)) R 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(state_and_seconds(stat), Some(("R", 2.0)));
        assert_eq!(state_and_seconds(""), None);
        assert_eq!(peak_kib("VmPeak:\t  99 kB\nVmHWM:\t    1234 kB\n"), Some(1234.0));
        assert_eq!(peak_kib("State:\tZ (zombie)\n"), None);
    }

    #[test]
    fn each_message_has_its_own_id() {
        assert!(message(255).contains(r#""6f1c0d3e-8a55-4c8e-9a3f-0000000000ff""#));
        assert_eq!(message(0).len(), message(0xFFFF).len() - 4);
    }
}
