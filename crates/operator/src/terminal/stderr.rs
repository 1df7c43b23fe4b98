//! Messages on standard error, with the verbosity and colors requested by `-v`, `-q` and `--color`; and the output of
//! a user's own function. All of it passes through `write_above_progress`, so that no line shares its row with the
//! progress bar.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use clap::{Args, ColorChoice};
use console::{Term, style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};
use redeliver_aws::stderr;
use redeliver_core::lock;

use crate::next_command::{NextCommand, docs_url};
use crate::terminal::escape::escape_lines;
use crate::terminal::help::ALL_COMMANDS;

const QUIET: u8 = 0;
const NORMAL: u8 = 1;
const VERBOSE: u8 = 2;

/// The verbosity of the process. Global, like the color settings in the `console` crate.
static LEVEL: AtomicU8 = AtomicU8::new(NORMAL);

/// The progress bar of the process, if any.
static PROGRESS: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// The options for standard error.
#[derive(Clone, Copy, Debug, Args)]
pub struct StderrArgs {
    /// Print each request to AWS and its status on standard error
    #[arg(short, long, global = true, help_heading = ALL_COMMANDS, conflicts_with = "quiet")]
    verbose: bool,
    /// Print only warnings and errors on standard error
    #[arg(short, long, global = true, help_heading = ALL_COMMANDS)]
    quiet: bool,
    /// When to use colors
    ///
    /// `auto` means on a terminal without `NO_COLOR`.
    #[arg(long, global = true, help_heading = ALL_COMMANDS, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl StderrArgs {
    /// Applies the options to the process.
    pub fn apply(self) {
        LEVEL.store(
            match self {
                Self { quiet: true, .. } => QUIET,
                Self { verbose: true, .. } => VERBOSE,
                _ => NORMAL,
            },
            Ordering::Relaxed,
        );
        if self.color != ColorChoice::Auto {
            console::set_colors_enabled(self.color == ColorChoice::Always);
            console::set_colors_enabled_stderr(self.color == ColorChoice::Always);
        }
    }
}

/// Parses the color choice for help and usage errors, which are printed before the command line is parsed.
pub fn parse_color_choice(arguments: impl Iterator<Item = std::ffi::OsString>) -> ColorChoice {
    let words: Vec<_> = arguments.take_while(|word| word != "--").collect();
    let after = |index: usize| words.get(index + 1).and_then(|word| word.to_str());
    let value = words.iter().enumerate().find_map(|(index, word)| match word.to_str()? {
        "--color" => after(index),
        word => word.strip_prefix("--color="),
    });
    match value {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

/// Prints a line, whose text must be safe to print.
pub fn print_line(text: impl Display) {
    write_above_progress(|| stderr::write_line(text));
}

/// Clears the progress bar, writes, and redraws it.
fn write_above_progress(write: impl FnOnce()) {
    let bar = lock(&PROGRESS).as_ref().and_then(WeakProgressBar::upgrade);
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Prints the reason for the command's failure.
pub fn error(what: impl Display) {
    let word = style("error:").for_stderr().red().bold();
    print_line(format_args!("{word} {}", format_entry(what)));
}

/// Prints a warning about something that needs attention.
pub fn warning(what: impl Display) {
    let word = style("warning:").for_stderr().yellow().bold();
    print_line(format_args!("{word} {}", format_entry(what)));
}

/// Prints useful information.
pub fn remark(what: impl Display) {
    if LEVEL.load(Ordering::Relaxed) >= NORMAL {
        print_line(format_entry(what));
    }
}

/// Prints the suggested next command, and the docs page that explains it.
pub fn print_next_command(command: &NextCommand, page: &str) {
    const NEXT: &str = "next: ";
    if command.is_printable() && LEVEL.load(Ordering::Relaxed) >= NORMAL {
        let columns = io::stderr().is_terminal().then(|| Term::stderr().size().1.into());
        let words = style(NEXT).for_stderr().bold();
        print_line(format_args!("{words}{}", command.wrap_lines(columns, NEXT.len())));
        docs_url(page).iter().for_each(|url| remark(format_args!("docs: {url}")));
    }
}

/// Prints details with `-v`.
pub fn detail(what: impl Display) {
    if is_verbose() {
        print_line(style(format_entry(what)).for_stderr().dim());
    }
}

/// Escapes the text and indents continuation lines, so that a line break from AWS, the system or a file name cannot
/// start a line that looks like redeliver's own.
fn format_entry(what: impl Display) -> String {
    escape_lines(what.to_string().trim_end()).replace('\n', "\n  ")
}

/// Returns true with `-v`.
pub fn is_verbose() -> bool {
    LEVEL.load(Ordering::Relaxed) >= VERBOSE
}

/// Limits the output to warnings and errors from now on, for a process whose log is read by programs.
pub fn be_quiet() {
    LEVEL.store(QUIET, Ordering::Relaxed);
}

/// Shows a progress bar on standard error; it is hidden with `-q` and without a terminal.
pub fn show_progress(bar: ProgressBar, template: &str) -> ProgressBar {
    let bar = match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    if LEVEL.load(Ordering::Relaxed) == QUIET {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    *lock(&PROGRESS) = Some(bar.downgrade());
    bar
}

/// An incomplete line is printed after this pause, for example the last output before a hang.
const PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of chunks waiting for the terminal.
const CHUNKS_MAX: usize = 16;
/// A line is split after this many bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Copies the output of a user's own function to standard error, until it ends: to a terminal in complete lines,
/// otherwise byte for byte.
pub fn copy_output(output: impl Read + Send) {
    if io::stderr().is_terminal() {
        return copy_lines(output, PAUSE, |lines| write_above_progress(|| write_all(lines)));
    }
    for_each_chunk(output, write_all);
}

/// Writes bytes, or drops them if they cannot be written.
fn write_all(bytes: &[u8]) {
    let _lost = io::stderr().write_all(bytes);
}

/// Writes complete lines, and an incomplete line at the end or after a pause.
fn copy_lines(output: impl Read + Send, pause: Duration, mut write: impl FnMut(&[u8])) {
    let (chunks, received) = mpsc::sync_channel(CHUNKS_MAX);
    thread::scope(|scope| {
        // Sending cannot fail, since the receiver outlives the scope.
        scope.spawn(move || for_each_chunk(output, |bytes| drop(chunks.send(bytes.to_vec()))));
        let mut line = Vec::new();
        loop {
            let chunk = received.recv_timeout(pause);
            let flushes_all = chunk.is_err() || line.len() > LINE_BYTES_MAX;
            line.extend(chunk.iter().flatten());
            let line_feed = line.iter().rposition(|byte| *byte == b'\n');
            let end = if flushes_all { line.len() } else { line_feed.map_or(0, |last| last + 1) };
            if end > 0 {
                let rest = line.split_off(end);
                write(&normalize_line_ends(&std::mem::replace(&mut line, rest)));
            }
            if chunk == Err(mpsc::RecvTimeoutError::Disconnected) {
                return;
            }
        }
    });
}

fn for_each_chunk(mut output: impl Read, mut take: impl FnMut(&[u8])) {
    let mut buffer = [0; 8192];
    loop {
        match output.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => take(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Ends each line with a line feed. In CloudWatch Logs, a carriage return breaks a line within one entry, and AWS's
/// Python runtime prints tracebacks that way; on a terminal, each line would overwrite the previous one.
fn normalize_line_ends(lines: &[u8]) -> Vec<u8> {
    let mut readable = Vec::with_capacity(lines.len() + 1);
    for (index, byte) in lines.iter().enumerate() {
        match byte {
            b'\r' if lines.get(index + 1) == Some(&b'\n') => {}
            b'\r' => readable.push(b'\n'),
            _ => readable.push(*byte),
        }
    }
    if readable.last().is_some_and(|last| *last != b'\n') {
        readable.push(b'\n');
    }
    readable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_lines_of_an_error_are_indented_and_escaped() {
        assert_eq!(format_entry("a\n- b\n\u{1b}[2Kc\n"), "a\n  - b\n  \\u{1b}[2Kc");
        assert_eq!(format_entry("a\r\nerror: b"), "a\\r\n  error: b");
    }

    #[test]
    fn carriage_returns_become_line_feeds_on_a_terminal() {
        let traceback = b"[ERROR] KeyError: 'id'\rTraceback:\r  File\n";
        assert_eq!(normalize_line_ends(traceback), b"[ERROR] KeyError: 'id'\nTraceback:\n  File\n");
        assert_eq!(normalize_line_ends(b"a\r\nb\r"), b"a\nb\n");
        assert_eq!(normalize_line_ends(b"\r"), b"\n");
    }

    #[test]
    fn a_line_split_across_chunks_is_written_once_and_the_rest_at_the_end() {
        let mut written = Vec::new();
        let chunks = b"a".chain(&b"b\nc"[..]).chain(&b"d\re\n"[..]).chain(&b"rest"[..]);
        copy_lines(chunks, Duration::from_hours(1), |lines| written.push(lines.to_vec()));
        assert_eq!(written, [&b"ab\n"[..], b"cd\ne\n", b"rest\n"]);
    }

    #[test]
    fn an_incomplete_line_is_written_during_a_hang() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (lines, written) = mpsc::channel();
        let copying = thread::spawn(move || {
            copy_lines(reader, Duration::from_millis(1), |text| drop(lines.send(text.to_vec())));
        });
        writer.write_all(b"connecting").unwrap();
        assert_eq!(written.recv().unwrap(), b"connecting\n");
        drop(writer);
        copying.join().unwrap();
        assert!(written.recv().is_err());
    }

    #[test]
    fn help_colors_are_known_before_arguments_are_parsed() {
        let choice = |words: &[&str]| parse_color_choice(words.iter().map(Into::into));
        assert_eq!(choice(&["redeliver", "--color", "never", "--nonsense"]), ColorChoice::Never);
        assert_eq!(choice(&["redeliver", "audit", "--color=always"]), ColorChoice::Always);
        for auto in [&["redeliver"][..], &["redeliver", "--color"], &["redeliver", "--", "--color=never"]] {
            assert_eq!(choice(auto), ColorChoice::Auto, "{auto:?}");
        }
    }
}
