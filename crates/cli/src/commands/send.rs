//! `redeliver send`: sends a file of messages, using [`redeliver_operator::sending`].

mod arguments;
mod problems;
mod terminal;

use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;
use redeliver_operator::files::read_schema;
use redeliver_operator::message_file::input_name;
use redeliver_operator::queues::account;
use redeliver_operator::sending::{FileToSend, StopReason, Summary};
use redeliver_operator::sentences::describe_repeated_lines;
use redeliver_operator::terminal::signals::stop_on_signal;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{CommandFailure, ExitCode};

pub use arguments::Arguments;

use terminal::Terminal;

/// Sends the file and prints the result.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    print_summary(arguments, &run_send(arguments).await?)
}

async fn run_send(arguments: &Arguments) -> Result<Summary, CommandFailure> {
    arguments.check_file()?;
    let schema = read_schema(arguments.data_schema.as_deref(), &arguments.plain)?;
    let journal = arguments.journal_path()?;
    arguments.printing.check_destination()?;
    let applied = arguments.apply.is_wanted();
    let file = FileToSend {
        path: &arguments.file,
        is_backup: arguments.backup,
        schema,
        journal: journal.as_deref(),
        applied,
    };
    let connection = &arguments.connection;
    let address = arguments.queue.find_address(connection, Role::Source).await?;
    let open = file.open(connection, &address).await?;
    let terminal = Terminal::new(&arguments.file);
    let queue = open.queue.arn();
    let verb = arguments.apply.choose_verb("sending", "would send");
    let what = format!("{verb} {} to {queue}", input_name(&arguments.file).display());
    account::announce_change(connection, queue, what).await;
    if !applied {
        let summary = open.preview(&terminal);
        terminal.finish_output();
        remark_on_input(arguments, &summary);
        summary.stopped.iter().for_each(stderr::error);
        return Ok(summary);
    }
    let stop =
        stop_on_signal("interrupted: waiting for the batches in flight; Ctrl-C again stops immediately")?;
    let summary = open.send(arguments.rate, &terminal, stop.wait_until_requested()).await;
    terminal.finish_output();
    remark_on_input(arguments, &summary);
    summary.stopped.iter().for_each(stderr::error);
    if let Some(path) =
        journal.filter(|_| summary.exit_code() != ExitCode::Done && !summary.attempted_nothing())
    {
        let path = path.display();
        let rest = match &summary.stopped {
            Some(StopReason::Unreadable(_)) => "make the rest readable, and the same command sends it",
            _ => "the same command sends the rest",
        };
        stderr::remark(format_args!("the sent lines are recorded in {path}: {rest}"));
    }
    Ok(summary)
}

fn remark_on_input(arguments: &Arguments, summary: &Summary) {
    let name = input_name(&arguments.file);
    if let Some(recognized) = &summary.recognized {
        stderr::remark(format_args!("{}: {recognized}", name.display()));
    }
    describe_repeated_lines(&name.display(), summary.repeated).iter().for_each(stderr::remark);
}

fn print_summary(arguments: &Arguments, summary: &Summary) -> Result<ExitCode, CommandFailure> {
    let applied = arguments.apply.is_wanted();
    arguments.printing.print_report("send", summary, || summary.render_table(applied))?;
    arguments.apply.remind_to_apply(summary.planned > 0 && summary.stopped.is_none());
    Ok(summary.exit_code())
}
