//! A command's help: the option headings, and the text after the options in `--help` and in the manual page.

use crate::ExitCode;
use crate::next_command::docs_url;

/// Options that select the queues and their account.
pub const CONNECT: &str = "Connect";
/// Options that select the dead letters.
pub const SELECT: &str = "Select";
/// Options that change messages.
pub const EDIT: &str = "Edit";
/// Options that set the rules for messages.
pub const VALIDATE: &str = "Validate";
/// Options that control the report.
pub const SHOW: &str = "Show";
/// Options for verbosity, colors and help.
pub const ALL_COMMANDS: &str = "Options for all commands";

/// Maximum number of examples in `--help`.
const EXAMPLES_MAX: usize = 3;

/// The text after a command's options.
///
/// `--help` contains the first three examples, one line per exit code, and a pointer to more information. The manual
/// page contains everything.
#[derive(Clone, Copy, Debug)]
pub struct HelpFooter {
    /// The command, such as `audit`.
    pub command: &'static str,
    /// The docs page without its extension, such as `operate/audit`.
    pub page: &'static str,
    /// The examples, most common first.
    pub examples: &'static [&'static str],
    /// Paragraphs for the manual page.
    pub notes: &'static [&'static str],
    /// All exit codes of the command.
    pub exit_codes: &'static [ExitCodeHelp],
}

/// A command's exit code: the code, a short description of what it means in that command, and sentences for the manual
/// page. The description and the sentences may be empty, since [`ExitCode::meaning`] is printed first.
pub type ExitCodeHelp = (ExitCode, &'static str, &'static str);

impl HelpFooter {
    /// Returns the text for `--help`.
    #[must_use]
    pub fn short_text(&self) -> String {
        let examples = &self.examples[..self.examples.len().min(EXAMPLES_MAX)];
        let codes: String = self.exit_codes.iter().map(|exit| exit_code_line(exit) + "\n").collect();
        let page = docs_url(self.page).unwrap_or_else(|| format!("docs/{}.md", self.page));
        let Self { command, .. } = self;
        format!("{}\n\nExit codes:\n{codes}\nMore: {page}, man redeliver-{command}", example_lines(examples))
    }

    /// Returns the text for the manual page, in the same form.
    #[must_use]
    pub fn long_text(&self) -> String {
        let notes: String = self.notes.iter().map(|note| format!("{note}\n\n")).collect();
        let codes: Vec<_> = self
            .exit_codes
            .iter()
            .map(|exit| match exit.2 {
                "" => exit_code_line(exit),
                details => format!("{}. {details}", exit_code_line(exit)),
            })
            .collect();
        format!("{}\n\n{notes}Exit codes:\n{}", example_lines(self.examples), codes.join("\n"))
    }
}

fn example_lines(examples: &[&str]) -> String {
    let lines: String =
        examples.iter().map(|example| format!("\n  {}", example.replace('\n', "\n    "))).collect();
    format!("Examples:{lines}")
}

fn exit_code_line(&(code, here, _): &ExitCodeHelp) -> String {
    let (number, meaning) = (code.number(), code.meaning());
    match here {
        "" => format!("  {number:<3}  {meaning}"),
        here => format!("  {number:<3}  {meaning}: {here}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSING: HelpFooter = HelpFooter {
        command: "audit",
        page: "operate/audit",
        examples: &[
            "redeliver audit",
            "redeliver audit \\\n--max 1",
            "redeliver audit -q",
            "redeliver audit -v",
        ],
        notes: &["A note.", "Another."],
        exit_codes: &[
            (ExitCode::Done, "no dead letters", ""),
            (ExitCode::Interrupted, "", "The report has the rest."),
        ],
    };

    #[test]
    fn help_has_three_examples_and_the_manual_has_everything() {
        let exit_codes =
            "Exit codes:\n  0    done, and nothing needs attention: no dead letters\n  130  interrupted";
        let examples =
            "Examples:\n  redeliver audit\n  redeliver audit \\\n    --max 1\n  redeliver audit -q";
        let short = CLOSING.short_text();
        let (text, more) = short.rsplit_once("\n\n").unwrap();
        assert_eq!(text, format!("{examples}\n\n{exit_codes}"));
        assert!(more.starts_with("More: ") && more.ends_with(", man redeliver-audit"), "{more}");
        let long = format!(
            "{examples}\n  redeliver audit -v\n\nA note.\n\nAnother.\n\n{exit_codes}. The report has the rest."
        );
        assert_eq!(CLOSING.long_text(), long);
    }
}
