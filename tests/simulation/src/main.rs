//! `cargo xtask faults`: runs many seeds, or replays one.
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
/// Each seed is a run of one of the other strategies, and one of the strategy `ordered`, on a FIFO queue. A failure prints the last changes of the queues,
/// every knob of the run and the broken rule, and ends with exit code 1.
#[derive(Parser)]
#[command(name = "cargo xtask faults", bin_name = "cargo xtask faults")]
struct Arguments {
    /// Replay this one seed.
    #[arg(long, conflicts_with_all = ["seeds", "changes", "seconds", "first_seed"])]
    seed: Option<u64>,
    /// Number of seeds to run.
    #[arg(long)]
    seeds: Option<u64>,
    /// Run seeds until this many changes of queues were checked: the same work on any machine, however busy it is.
    #[arg(long, conflicts_with = "seeds")]
    changes: Option<u64>,
    /// Run seeds for this many seconds.
    #[arg(long, default_value_t = 60, conflicts_with_all = ["seeds", "changes"])]
    seconds: u64,
    /// Maximum number of messages in each run: small runs break sooner and are easier to read.
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    messages_max: usize,
    /// Start with this seed; a fresh one by default.
    #[arg(long)]
    first_seed: Option<u64>,
    /// Run only the strategy `ordered`, with every seed.
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
        // Six digits of seconds and six of microseconds: short enough to be typed again.
        None => {
            (arguments.first_seed.unwrap_or_else(|| random_seed(started.timestamp_micros())), arguments.seeds)
        }
    };
    let program = SeedRunner {
        messages_max: arguments.messages_max,
        only_ordered: arguments.ordered,
        schemas: Schemas::default(),
    };
    match arguments.seed {
        Some(seed) => program.print_knobs(seed),
        None => println!("seeds from {first} on"),
    }
    let (mut seeds, mut sums) = (0, Sums::default());
    let more = |seeds, changes| match (count, arguments.changes) {
        (Some(count), _) => seeds < count,
        (None, Some(enough)) => changes < enough,
        (None, None) => elapsed() < Duration::from_secs(arguments.seconds),
    };
    while more(seeds, sums.changes) {
        let seed = first.wrapping_add(seeds);
        if let Err(failure) = program.run_seed(seed, &mut sums) {
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
    let mut again = Sums::default();
    if let Some(last) = seeds.checked_sub(1).map(|last| first.wrapping_add(last))
        && (program.run_seed(last, &mut again).is_err() || again.last_digest != sums.last_digest)
    {
        println!("seed {last}: two runs of it differ: what is replayed would not be what failed");
        return ExitCode::FAILURE;
    }
    sums.print_sums(first, seeds, elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

/// The runs of a seed.
struct SeedRunner {
    messages_max: usize,
    only_ordered: bool,
    schemas: Schemas,
}

impl SeedRunner {
    /// Runs a seed, or returns the report of its failure.
    fn run_seed(&self, seed: u64, sums: &mut Sums) -> Result<(), String> {
        sums.last_digest = 0;
        if !self.only_ordered {
            sums.add_run(
                &run_simulation(self.knobs_for_seed(seed), &self.schemas)
                    .map_err(|failed| failed.to_string())?,
            );
        }
        sums.add_ordered(
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
struct Sums {
    messages: u64,
    changes: u64,
    copies: u64,
    virtual_seconds: f64,
    spans: SpanCounts,
    /// Runs of the strategy `ordered`.
    ordered: u64,
    in_order: ordered::OrderedCounts,
    last_digest: u64,
}

impl Sums {
    fn add_run(&mut self, passed: &redeliver_simulation::run::PassedRun) {
        self.messages += passed.balance.messages;
        self.copies += passed.balance.copies;
        self.changes += passed.changes;
        self.virtual_seconds += passed.seconds;
        self.spans += passed.spans;
        self.last_digest = passed.digest;
    }

    fn add_ordered(&mut self, passed: &ordered::OrderedPassedRun) {
        self.ordered += 1;
        self.virtual_seconds += passed.seconds;
        self.in_order += passed.counts;
        self.last_digest ^= passed.digest;
    }

    #[expect(clippy::cast_precision_loss, reason = "for humans")]
    fn print_sums(&self, first: u64, seeds: u64, seconds: f64) {
        let Self { messages, changes, copies, virtual_seconds, spans, ordered, in_order, last_digest } = self;
        let hours = virtual_seconds / 3600.0;
        println!("seeds {first}..={}: {seeds} passed, in {seconds:.1} s", first + seeds.saturating_sub(1));
        println!(
            "{:.0} seeds a minute, {:.1} virtual hours a second",
            60.0 * seeds as f64 / seconds,
            hours / seconds
        );
        println!(
            "{messages} messages, {copies} copies came out, {changes} changes checked, {hours:.0} virtual hours"
        );
        let SpanCounts { attempts, after_another, linked } = spans;
        println!(
            "{attempts} attempts with spans, {after_another} of them after another one, {linked} linked to it"
        );
        let ordered::OrderedCounts { messages, calls, crashes, unreadable, taken_out, changes } = in_order;
        println!(
            "{ordered} runs in order: {messages} messages, {calls} calls, {crashes} crashes, {unreadable} unreadable \
             records, {taken_out} blocked groups unblocked, {changes} changes checked, nothing overtaken"
        );
        println!("digest of the last run, the same when it was run again: {last_digest:016x}");
    }
}
