//! The `redeliver` program: its commands, with their arguments and exit codes.
#![expect(unreachable_pub, reason = "a program has no public API; its `pub` items are for its other modules")]

mod commands;
mod help;
mod version;

use std::ffi::OsString;
use std::process;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use redeliver_aws::settings::Variables;
use redeliver_operator::terminal::escape;
use redeliver_operator::terminal::stderr::{self, StderrArgs, parse_color_choice};
use redeliver_operator::{CommandFailure, ExitCode, failure_exit_code};

use commands::{
    audit, check, completions, fleet, local, man, pause, permissions, preflight, purge, redrive, send,
    simulate, status, unblock, work,
};

/// Delayed, jittered retries for SQS and Lambda, with nothing lost and every dead letter explained.
#[derive(Debug, Parser)]
#[command(name = "redeliver", version = version::VERSION.as_str(), max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    stderr: StderrArgs,
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    Local(Box<local::Arguments>),
    Simulate(Box<simulate::Arguments>),
    Check(check::Arguments),
    Audit(Box<audit::Arguments>),
    Redrive(Box<redrive::Arguments>),
    Purge(Box<purge::Arguments>),
    Unblock(Box<unblock::Arguments>),
    Send(Box<send::Arguments>),
    Status(Box<status::Arguments>),
    Fleet(Box<fleet::Arguments>),
    Console(Box<redeliver_console::Arguments>),
    Pause(Box<pause::PauseArguments>),
    Resume(Box<pause::ResumeArguments>),
    Preflight(preflight::Arguments),
    Permissions(permissions::Arguments),
    Work(work::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

fn main() -> process::ExitCode {
    // Memory holds credentials and payloads, and a core file would expose them to anyone who collects crash dumps.
    redeliver_platform::process::disable_core_dumps();
    redeliver_platform::process::block_debuggers();
    redeliver_aws::telemetry::panics_without_text();
    let command = help::with_short_help(build_program())
        .mut_subcommands(|command| command.mut_args(allow_negative_numbers))
        .color(parse_color_choice(std::env::args_os()));
    let stack = Variables::from_env().optional(STACK);
    let parsed = parse_with_default_stack(&command, std::env::args_os().collect(), stack)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => return report_parse_error(&error),
    };
    arguments.stderr.apply();
    let ended = run_command(arguments.command).unwrap_or_else(|error| {
        let code = failure_exit_code(&error);
        stderr::error(error);
        code
    });
    ended.into()
}

/// Builds the program with all its commands and texts.
fn build_program() -> clap::Command {
    help::with_help_options(Arguments::command())
}

/// The environment variable with the default stack, for commands whose arguments do not name a queue.
const STACK: &str = "REDELIVER_STACK";

/// Parses the command line; if the required queue is missing, retries with the stack that [`STACK`] names.
fn parse_with_default_stack(
    command: &clap::Command,
    arguments: Vec<OsString>,
    stack: Option<String>,
) -> Result<ArgMatches, clap::Error> {
    let parsed = command.clone().try_get_matches_from(&arguments);
    let is_missing_argument = |error: &clap::Error| error.kind() == ErrorKind::MissingRequiredArgument;
    let (Some(stack), true) = (stack, parsed.as_ref().err().is_some_and(is_missing_argument)) else {
        return parsed;
    };
    let named = arguments.iter().enumerate().skip(1).find_map(|(at, word)| {
        let subcommand = command.find_subcommand(word)?;
        subcommand.get_arguments().any(|argument| argument.get_long() == Some("stack")).then_some(at)
    });
    let Some(at) = named else { return parsed };
    let mut with_stack = arguments;
    with_stack.splice(at + 1..=at, [OsString::from("--stack"), stack.into()]);
    // If that fails, too, a different argument is missing, and the first error names it.
    command.clone().try_get_matches_from(with_stack).or(parsed)
}

/// Prints help, the version or a usage error, escaped: the command line may come from an untrusted source.
fn report_parse_error(error: &clap::Error) -> process::ExitCode {
    let words = error.render().to_string();
    let safe = escape::escape_lines(&words);
    if safe == words {
        error.exit();
    }
    redeliver_aws::stderr::write_line(safe.trim_end());
    ExitCode::Usage.into()
}

/// Reports `--fail-rate -1` as a number out of range, not as an unknown option `-1`.
fn allow_negative_numbers(argument: Arg) -> Arg {
    let takes_value = !argument.is_positional() && argument.get_action().takes_values();
    if takes_value { argument.allow_negative_numbers(true) } else { argument }
}

fn run_command(command: CliCommand) -> Result<ExitCode, CommandFailure> {
    match command {
        CliCommand::Local(arguments) => block_on(local::main(&arguments)),
        CliCommand::Simulate(arguments) => simulate::main(&arguments),
        CliCommand::Check(arguments) => check::main(&arguments),
        CliCommand::Audit(arguments) => block_on(audit::main(&arguments)),
        CliCommand::Redrive(arguments) => block_on(redrive::main(&arguments)),
        CliCommand::Purge(arguments) => block_on(purge::main(&arguments)),
        CliCommand::Unblock(arguments) => block_on(unblock::main(&arguments)),
        CliCommand::Send(arguments) => block_on(send::main(&arguments)),
        CliCommand::Status(arguments) => block_on(status::main(&arguments)),
        CliCommand::Fleet(arguments) => block_on(fleet::main(&arguments)),
        CliCommand::Console(arguments) => block_on(redeliver_console::main(&arguments)),
        CliCommand::Pause(arguments) => block_on(pause::pause_readers(&arguments)),
        CliCommand::Resume(arguments) => block_on(pause::resume_readers(&arguments)),
        CliCommand::Permissions(arguments) => block_on(permissions::main(&arguments)),
        CliCommand::Preflight(arguments) => block_on(preflight::main(&arguments)),
        // This command reports errors in its log.
        CliCommand::Work(arguments) => Ok(work::main(arguments)),
        CliCommand::Completions(arguments) => {
            completions::main(&arguments, help::with_one_sentence_descriptions(build_program()))
        }
        CliCommand::Man(arguments) => {
            man::main(&arguments, help::with_one_sentence_descriptions(build_program()))
        }
    }
}

fn block_on(
    command: impl Future<Output = Result<ExitCode, CommandFailure>>,
) -> Result<ExitCode, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(command);
    // A page still being computed, or a pending DNS lookup, must not delay the exit.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
#[test]
fn the_stack_from_the_environment_is_used_if_no_queue_is_named() {
    let parsed_stack = |words: &[&str], stack: Option<&str>| {
        let words = ["redeliver"].iter().chain(words).map(OsString::from).collect();
        let matches =
            parse_with_default_stack(&Arguments::command(), words, stack.map(str::to_owned)).ok()?;
        let (_, matches) = matches.subcommand()?;
        Some(matches.get_one::<String>("stack").cloned())
    };
    let prod = Some("prod");
    for command in ["audit", "status", "preflight", "-q redrive --max 1", "--color never pause"] {
        let words: Vec<_> = command.split(' ').collect();
        assert_eq!(parsed_stack(&words, prod), Some(Some("prod".to_owned())), "{command}");
        assert_eq!(parsed_stack(&words, None), None, "{command}");
    }
    assert_eq!(parsed_stack(&["audit", "--stack", "test"], prod), Some(Some("test".to_owned())));
    for named in [&["audit", "--queue", "dlq"][..], &["audit", "dead.jsonl"], &["status", "--stage", "test"]]
    {
        assert_eq!(parsed_stack(named, prod), Some(None), "{named:?}");
    }
    let words = ["redeliver", "send", "--stage", "test"].map(OsString::from).to_vec();
    let error = parse_with_default_stack(&Arguments::command(), words, Some("prod".to_owned())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument, "the file is missing: {error}");
}

/// A filter on a console page can run for hours.
#[cfg(test)]
#[test]
fn a_running_blocking_task_does_not_delay_the_exit() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (ended_sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let done = block_on(async move {
            drop(tokio::task::spawn_blocking(move || released.recv()));
            Ok(ExitCode::Done)
        });
        ended_sender.send(done.is_ok())
    });
    let is_ended = ended.recv_timeout(std::time::Duration::from_secs(60));
    drop(release);
    assert_eq!(is_ended, Ok(true));
}
