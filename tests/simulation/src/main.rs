//! `cargo xtask faults`: runs many seeds or replays one.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use redeliver_core::ports::Clock as _;
use redeliver_simulation::knobs::SimulationKnobs;
use redeliver_simulation::ledger::SpanCounts;
use redeliver_simulation::ordered;
use redeliver_simulation::run::{Schemas, run_simulation};

/// Runs seeds through the simulator.
///
/// Each seed makes two runs: one with the strategy `ordered`, on a FIFO queue, and one with another. On a failure,
/// the program prints the last queue changes, every knob of the run, and the broken rule, and exits with code 1.
#[derive(Parser)]
#[command(name = "cargo xtask faults", bin_name = "cargo xtask faults")]
struct Arguments {
    /// Replay this one seed.
    #[arg(long, conflicts_with_all = ["seeds", "changes", "seconds", "first_seed"])]
    seed: Option<u64>,
    /// Number of seeds to run.
    #[arg(long)]
    seeds: Option<u64>,
    /// Run seeds until this many queue changes have been checked: the same amount of work on any machine, busy or not.
    #[arg(long, conflicts_with = "seeds")]
    changes: Option<u64>,
    /// Run seeds for this many seconds.
    #[arg(long, default_value_t = 60, conflicts_with_all = ["seeds", "changes"])]
    seconds: u64,
    /// Maximum number of messages per run: small runs fail sooner and are easier to read.
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    messages_max: usize,
    /// First seed; derived from the current time by default.
    #[arg(long)]
    first_seed: Option<u64>,
    /// Run only the strategy `ordered`.
    #[arg(long, conflicts_with = "changes")]
    ordered: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let clock = redeliver_aws::SystemClock;
    let started = clock.now();
    let elapsed = || (clock.now() - started).to_std().unwrap_or_default();
    let (first, count) = match arguments.seed {
        Some(seed) => (seed, Some(1)),
        // Six digits of seconds and six of microseconds: short enough to retype.
        None => {
            (arguments.first_seed.unwrap_or_else(|| random_seed(started.timestamp_micros())), arguments.seeds)
        }
    };
    let runner = SeedRunner {
        messages_max: arguments.messages_max,
        only_ordered: arguments.ordered,
        schemas: Schemas::default(),
    };
    match arguments.seed {
        Some(seed) => runner.print_knobs(seed),
        None => println!("seeds from {first} on"),
    }
    let (mut seeds, mut totals) = (0, Totals::default());
    let more = |seeds, changes| match (count, arguments.changes) {
        (Some(count), _) => seeds < count,
        (None, Some(enough)) => changes < enough,
        (None, None) => elapsed() < Duration::from_secs(arguments.seconds),
    };
    while more(seeds, totals.changes) {
        let seed = first.wrapping_add(seeds);
        if let Err(failure) = runner.run_seed(seed, &mut totals) {
            let small = match arguments.messages_max {
                usize::MAX => String::new(),
                most => format!("--messages-max {most} "),
            };
            let ordered = if arguments.ordered { "--ordered " } else { "" };
            println!("{failure}\nreplay: cargo xtask faults {small}{ordered}--seed {seed}");
            return ExitCode::FAILURE;
        }
        seeds += 1;
    }
    let mut again = Totals::default();
    if let Some(last) = seeds.checked_sub(1).map(|last| first.wrapping_add(last))
        && (runner.run_seed(last, &mut again).is_err() || again.last_digest != totals.last_digest)
    {
        println!("seed {last}: its two runs differ, so a replay would not reproduce a failure");
        return ExitCode::FAILURE;
    }
    totals.print_totals(first, seeds, elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

/// Settings for the runs of every seed.
struct SeedRunner {
    messages_max: usize,
    only_ordered: bool,
    schemas: Schemas,
}

impl SeedRunner {
    /// Executes the runs of a seed.
    ///
    /// # Errors
    /// The report of a failed run.
    fn run_seed(&self, seed: u64, totals: &mut Totals) -> Result<(), String> {
        totals.last_digest = 0;
        if !self.only_ordered {
            totals.add_run(
                &run_simulation(self.knobs_for_seed(seed), &self.schemas)
                    .map_err(|failed| failed.to_string())?,
            );
        }
        totals.add_ordered_run(
            &ordered::run_ordered(self.ordered_knobs_for_seed(seed)).map_err(|failed| failed.to_string())?,
        );
        Ok(())
    }

    fn print_knobs(&self, seed: u64) {
        if !self.only_ordered {
            println!("{:#?}", self.knobs_for_seed(seed));
        }
        println!("{:#?}", self.ordered_knobs_for_seed(seed));
    }

    fn knobs_for_seed(&self, seed: u64) -> SimulationKnobs {
        let knobs = SimulationKnobs::from_seed(seed);
        SimulationKnobs { messages: knobs.messages.min(self.messages_max), ..knobs }
    }

    fn ordered_knobs_for_seed(&self, seed: u64) -> ordered::OrderedKnobs {
        ordered::OrderedKnobs::from_seed(seed, self.messages_max)
    }
}

fn random_seed(micros: i64) -> u64 {
    micros.unsigned_abs() % 1_000_000_000_000
}

#[derive(Default)]
struct Totals {
    messages: u64,
    changes: u64,
    copies: u64,
    virtual_seconds: f64,
    spans: SpanCounts,
    /// Number of runs with the strategy `ordered`.
    ordered: u64,
    in_order: ordered::OrderedCounts,
    last_digest: u64,
}

impl Totals {
    fn add_run(&mut self, passed: &redeliver_simulation::run::PassedRun) {
        self.messages += passed.balance.messages;
        self.copies += passed.balance.copies;
        self.changes += passed.changes;
        self.virtual_seconds += passed.seconds;
        self.spans += passed.spans;
        self.last_digest = passed.digest;
    }

    fn add_ordered_run(&mut self, passed: &ordered::OrderedPassedRun) {
        self.ordered += 1;
        self.virtual_seconds += passed.seconds;
        self.in_order += passed.counts;
        self.last_digest ^= passed.digest;
    }

    #[expect(clippy::cast_precision_loss, reason = "for humans")]
    fn print_totals(&self, first: u64, seeds: u64, seconds: f64) {
        let Self { messages, changes, copies, virtual_seconds, spans, ordered, in_order, last_digest } = self;
        let hours = virtual_seconds / 3600.0;
        println!("seeds {first}..={}: {seeds} passed, in {seconds:.1} s", first + seeds.saturating_sub(1));
        println!(
            "{:.0} seeds per minute, {:.1} virtual hours per second",
            60.0 * seeds as f64 / seconds,
            hours / seconds
        );
        println!(
            "{messages} messages, {copies} surplus copies, {changes} changes checked, {hours:.0} virtual hours"
        );
        let SpanCounts { attempts, after_another, linked } = spans;
        println!("{attempts} attempts with spans, {after_another} of them retries, {linked} linked");
        let ordered::OrderedCounts { messages, calls, crashes, unreadable, taken_out, changes } = in_order;
        println!(
            "{ordered} runs in order: {messages} messages, {calls} calls, {crashes} crashes, {unreadable} unreadable \
             records, {taken_out} blocked groups unblocked, {changes} changes checked, order kept"
        );
        println!("digest of the last run, equal in both executions: {last_digest:016x}");
    }
}
