//! The output of a send while it runs.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use redeliver_operator::message_file::named;
use redeliver_operator::sending::{Summary, Watcher};
use redeliver_operator::terminal::escape::escaped;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::grouped;

use super::problems::Problems;

/// Prints each problem with its first line, and with all its lines at the end; and a progress bar on a terminal.
pub(super) struct Terminal {
    bar: ProgressBar,
    input: PathBuf,
    problems: RefCell<Problems>,
}

impl Terminal {
    pub(super) fn new(input: &Path) -> Self {
        let length = std::fs::metadata(input).ok().filter(std::fs::Metadata::is_file).map(|file| file.len());
        let (bar, template) = match length {
            Some(length) => (ProgressBar::new(length), "{bar:40} {percent}% read, {msg}, {elapsed}"),
            None => (ProgressBar::no_length(), "{spinner} {msg}, {elapsed}"),
        };
        Self { bar: stderr::progress(bar, template), input: named(input), problems: RefCell::default() }
    }

    /// Prints the number of lines of each problem.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
        for sentence in self.problems.borrow().repeated() {
            stderr::line(escaped(&format!("{}: {sentence}", self.input.display())));
        }
    }
}

impl Watcher for Terminal {
    fn problem(&self, line: usize, what: &str) {
        if self.problems.borrow_mut().is_first(line, what) {
            let told = format!("{}:{line}: {what}", self.input.display());
            stderr::line(escaped(&told));
        }
    }

    fn warning(&self, line: Option<usize>, what: &str) {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        stderr::warning(format_args!("{}{line}: {what}", self.input.display()));
    }

    fn progress(&self, bytes: u64, so_far: &Summary) {
        self.bar.set_position(bytes);
        self.bar.set_message(format!("{} sent", grouped(so_far.sent + so_far.sent_before)));
    }
}
