//! The output of a send while it is running.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use redeliver_operator::message_file::input_name;
use redeliver_operator::sending::{Summary, Watcher};
use redeliver_operator::terminal::escape::escape_line;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::group_digits;

use super::problems::Problems;

/// Prints each problem when it first occurs and, if it recurs, the number of affected lines at the end. Also shows a
/// progress bar on a terminal.
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
        Self {
            bar: stderr::show_progress(bar, template),
            input: input_name(input),
            problems: RefCell::default(),
        }
    }

    /// Prints how many lines each problem affects.
    pub(super) fn finish_output(&self) {
        self.bar.finish_and_clear();
        for sentence in self.problems.borrow().describe_repeated() {
            stderr::print_line(escape_line(&format!("{}: {sentence}", self.input.display())));
        }
    }
}

impl Watcher for Terminal {
    fn report_problem(&self, line: usize, what: &str) {
        if self.problems.borrow_mut().count_line(line, what) {
            let reported = format!("{}:{line}: {what}", self.input.display());
            stderr::print_line(escape_line(&reported));
        }
    }

    fn report_warning(&self, line: Option<usize>, what: &str) {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        stderr::warning(format_args!("{}{line}: {what}", self.input.display()));
    }

    fn report_progress(&self, bytes: u64, so_far: &Summary) {
        self.bar.set_position(bytes);
        self.bar.set_message(format!("{} sent", group_digits(so_far.sent + so_far.sent_before)));
    }
}
