//! Runs `redeliver send`: opens the file, the queue and the journal, and handles the terminal and Ctrl-C.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use futures_util::{Stream, stream};
use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;
use redeliver_dead_letters::Backup;
use redeliver_operator::Failure;
use redeliver_operator::files::read_schema;
use redeliver_operator::message_file::{self, Form, named};
use redeliver_operator::queues::{KnownQueue, account};
use redeliver_operator::sending::{Rules, Sender, Step, Summary, Watcher, count, open_journal};
use redeliver_operator::terminal::escape::escaped;
use redeliver_operator::terminal::signals::interrupted;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::grouped;
use tokio::sync::mpsc;

use super::Arguments;
use super::problems::Problems;

/// Lines that are read ahead, of at most 1 MiB each.
const READ_AHEAD: usize = 32;

pub(super) async fn run(arguments: &Arguments) -> Result<Summary, Failure> {
    arguments.check_file()?;
    let schema = read_schema(arguments.data_schema.as_deref(), &arguments.plain)?;
    let journal_path = arguments.journal()?;
    let input = message_file::open(&arguments.file)?;
    arguments.printing.check()?;
    let connection = &arguments.connection;
    let address = arguments.queue.address(connection, Role::Source).await?;
    if address.is_fifo() && !arguments.backup {
        return Err(format!(
            "{address} is a FIFO queue, and a line has no message group: let your producer send it"
        )
        .into());
    }
    let KnownQueue { queue, attributes } = connection.find(&address).await?;
    let largest = attributes.get("MaximumMessageSize").and_then(|text| text.parse().ok());
    let form = match arguments.backup {
        true => Form::Backup(Box::new(Backup::new(schema, queue.arn()))),
        false => Form::Body(Box::new(schema)),
    };
    if let Form::Backup(backup) = &form
        && journal_path.is_some()
    {
        // Before a journal is begun for a queue that was named by mistake.
        let first = form.lines(message_file::open(&arguments.file)?).next().and_then(Result::ok);
        backup.check_queue(&first.and_then(|line| line.content.ok()).unwrap_or_default())?;
    }
    let applied = arguments.apply.is_wanted();
    let journal = journal_path
        .as_ref()
        // A dry run needs no journal unless a send has begun one.
        .filter(|path| applied || arguments.resume || path.exists())
        .map(|path| open_journal(path, &arguments.file, queue.arn(), &form, arguments.resume))
        .transpose()?;
    let (mut journal, confirmed) = journal.unzip();
    let rules = Rules {
        form,
        largest: largest.unwrap_or(MESSAGE_BYTES_MAX),
        confirmed: confirmed.unwrap_or_default(),
    };
    let terminal = Terminal::new(&arguments.file);
    let verb = arguments.apply.verb("sending", "would send");
    let what = format!("{verb} {} to {}", named(&arguments.file).display(), queue.arn());
    account::announce(connection, queue.arn(), what).await;
    if !applied {
        let summary = preview(rules.steps(input), &terminal);
        terminal.end();
        return Ok(summary);
    }
    let stop = interrupted("interrupted: waiting for the batches on their way; Ctrl-C again does not wait")?;
    let sender = Sender { queue: &queue, clock: &SystemClock, rate: arguments.rate, watcher: &terminal };
    let summary = sender.send(ahead(rules.steps(input)), journal.as_mut(), stop.requested()).await;
    terminal.end();
    if let Some(why) = &summary.stopped {
        stderr::error(why);
    }
    if let Some(path) = &journal_path {
        leave(path, &summary);
    }
    Ok(summary)
}

/// Explains the journal, or removes it if nothing was tried: it would only block a send to another queue.
fn leave(journal: &Path, summary: &Summary) {
    if summary.has_tried_nothing() {
        // A journal that stays does no harm: it names its queue, and the error says what to do.
        let _removed = std::fs::remove_file(journal);
    } else if summary.exit_code() != 0 {
        let path = journal.display();
        stderr::remark(format_args!(
            "the sent lines are recorded in {path}: the same command sends the rest"
        ));
    }
}

/// Counts what a send would do with each line.
fn preview(steps: impl Iterator<Item = Step>, watcher: &impl Watcher) -> Summary {
    let mut summary = Summary::default();
    for step in steps {
        summary.planned += u64::from(count(step, &mut summary, watcher).is_some());
    }
    summary
}

/// Reads and checks on a thread of its own: an input that is silent must not hold up batches that are under way.
fn ahead(steps: impl Iterator<Item = Step> + Send + 'static) -> impl Stream<Item = Step> {
    let (sender, mut receiver) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || {
        for step in steps {
            if sender.blocking_send(step).is_err() {
                break; // the send has ended
            }
        }
    });
    stream::poll_fn(move |context| receiver.poll_recv(context))
}

/// Prints each problem with its first line, and with all its lines at the end; and a progress bar on a terminal.
struct Terminal {
    bar: ProgressBar,
    input: PathBuf,
    problems: RefCell<Problems>,
}

impl Terminal {
    fn new(input: &Path) -> Self {
        let length = std::fs::metadata(input).ok().filter(std::fs::Metadata::is_file).map(|file| file.len());
        let (bar, template) = match length {
            Some(length) => (ProgressBar::new(length), "{bar:40} {percent}% read, {msg}, {elapsed}"),
            None => (ProgressBar::no_length(), "{spinner} {msg}, {elapsed}"),
        };
        Self { bar: stderr::progress(bar, template), input: named(input), problems: RefCell::default() }
    }

    /// Prints the number of lines of each problem.
    fn end(&self) {
        self.bar.finish_and_clear();
        for sentence in self.problems.borrow().repeated() {
            redeliver_aws::stderr::line(escaped(&format!("{}: {sentence}", self.input.display())));
        }
    }
}

impl Watcher for Terminal {
    fn problem(&self, line: usize, what: &str) {
        if self.problems.borrow_mut().is_first(line, what) {
            let told = format!("{}:{line}: {what}", self.input.display());
            self.bar.suspend(|| redeliver_aws::stderr::line(escaped(&told)));
        }
    }

    fn warning(&self, line: Option<usize>, what: &str) {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        self.bar.suspend(|| stderr::warning(format_args!("{}{line}: {what}", self.input.display())));
    }

    fn progress(&self, bytes: u64, so_far: &Summary) {
        self.bar.set_position(bytes);
        self.bar.set_message(format!("{} sent", grouped(so_far.sent + so_far.sent_before)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redeliver_operator::sending::Stopped;

    #[test]
    fn a_journal_goes_only_if_nothing_was_tried() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("input.sent");
        let left = |summary: Summary| {
            redeliver_dead_letters::files::replace(&journal, b"its first line").unwrap();
            leave(&journal, &summary);
            journal.exists()
        };
        let nothing = Summary { invalid: 2, ..Summary::default() };
        assert!(!left(nothing.clone()));
        assert!(left(Summary { sent: 1, ..nothing.clone() }));
        assert!(left(Summary { sent_before: 1, ..nothing.clone() }));
        assert!(left(Summary { unconfirmed: 1, ..nothing.clone() }), "it may be in the queue");
        assert!(left(Summary { stopped: Some(Stopped::Interrupted), ..nothing }));
    }
}
