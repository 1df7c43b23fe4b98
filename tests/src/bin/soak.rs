//! Thousands of messages through the three real functions, under faults and kills, and a ledger that must balance.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use redeliver_tests::settings::epoch_millis;
use redeliver_tests::soak::run::Soak;

/// Send messages through the three real functions while requests fail, answers get lost and processes are killed, and check that nothing is lost.
///
/// Messages, faults, kills and the target's answers come from the seed. Time and the order of things are real, so the same seed gives a
/// similar run, not the same one.
#[derive(Parser)]
#[command(name = "cargo xtask soak", bin_name = "cargo xtask soak")]
struct Arguments {
    /// How many messages.
    #[arg(long, default_value_t = 5_000)]
    messages: usize,
    /// What decides; a new one if not given, and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// It fails when it takes longer than so many seconds.
    #[arg(long, default_value_t = 290)]
    limit_seconds: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { messages, seed, limit_seconds } = Arguments::parse();
    let seed = seed.unwrap_or_else(|| u64::try_from(epoch_millis() % 1_000_000_000).unwrap_or(0));
    println!("replay with: cargo xtask soak --messages {messages} --seed {seed}");
    let report = Soak { messages, seed, limit: Duration::from_secs(limit_seconds) }.run().await;
    println!("{report}");
    if report.balances() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
