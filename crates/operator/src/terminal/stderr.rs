//! Messages on standard error, with the amount and the colours that `-v`, `-q` and `--color` ask for.

use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::{Args, ColorChoice};
use console::style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use redeliver_aws::stderr;

use crate::terminal::escape::escaped_lines;

const QUIET: u8 = 0;
const NORMAL: u8 = 1;
const VERBOSE: u8 = 2;

/// The verbosity of the whole process. Global, like the colours of `console`.
static LEVEL: AtomicU8 = AtomicU8::new(NORMAL);

const OF_ALL: &str = "Options of all commands";

/// The options about standard error.
#[derive(Clone, Copy, Debug, Args)]
pub struct StderrArgs {
    /// Print more on standard error: each request to AWS, and the answer's status
    #[arg(short, long, global = true, help_heading = OF_ALL, conflicts_with = "quiet")]
    verbose: bool,
    /// Print only warnings and errors on standard error: no remarks, no progress
    #[arg(short, long, global = true, help_heading = OF_ALL)]
    quiet: bool,
    /// When to use colours; `auto` means on a terminal without `NO_COLOR`
    #[arg(long, global = true, help_heading = OF_ALL, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl StderrArgs {
    /// Applies the options to the whole process.
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

/// The colours of help and of errors in usage, which are printed before the command line is understood.
pub fn colors_of(arguments: impl Iterator<Item = std::ffi::OsString>) -> ColorChoice {
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

/// Prints the reason why the command failed.
pub fn error(what: impl Display) {
    let word = style("error:").for_stderr().red().bold();
    stderr::line(format_args!("{word} {}", one_entry(what)));
}

/// Prints something that needs attention.
pub fn warning(what: impl Display) {
    let word = style("warning:").for_stderr().yellow().bold();
    stderr::line(format_args!("{word} {}", one_entry(what)));
}

/// Prints useful information.
pub fn remark(what: impl Display) {
    if LEVEL.load(Ordering::Relaxed) >= NORMAL {
        stderr::line(one_entry(what));
    }
}

/// Prints details with `-v`.
pub fn detail(what: impl Display) {
    if is_verbose() {
        stderr::line(style(one_entry(what)).for_stderr().dim());
    }
}

/// Escapes the text and indents its later lines, so that a line break from AWS, the system or a file name cannot start
/// a line that looks like ours.
fn one_entry(what: impl Display) -> String {
    escaped_lines(what.to_string().trim_end()).replace('\n', "\n  ")
}

pub fn is_verbose() -> bool {
    LEVEL.load(Ordering::Relaxed) >= VERBOSE
}

/// Prints only warnings and errors from now on, for a process whose log is read by programs.
pub fn be_quiet() {
    LEVEL.store(QUIET, Ordering::Relaxed);
}

/// A progress bar on standard error; hidden with `-q` and without a terminal.
pub fn progress(bar: ProgressBar, template: &str) -> ProgressBar {
    let bar = match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    if LEVEL.load(Ordering::Relaxed) == QUIET {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_one_error_are_indented_and_stay_safe_to_look_at() {
        assert_eq!(one_entry("a\n- b\n\u{1b}[2Kc\n"), "a\n  - b\n  \\u{1b}[2Kc");
        assert_eq!(one_entry("a\r\nerror: b"), "a\\r\n  error: b");
    }

    #[test]
    fn the_colours_of_help_are_known_before_the_rest_is_understood() {
        let of = |words: &[&str]| colors_of(words.iter().map(Into::into));
        assert_eq!(of(&["redeliver", "--color", "never", "--nonsense"]), ColorChoice::Never);
        assert_eq!(of(&["redeliver", "audit", "--color=always"]), ColorChoice::Always);
        for auto in [&["redeliver"][..], &["redeliver", "--color"], &["redeliver", "--", "--color=never"]] {
            assert_eq!(of(auto), ColorChoice::Auto, "{auto:?}");
        }
    }
}
