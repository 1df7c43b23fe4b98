//! Suggests the next command, with all names filled in, and the docs page that explains it.

use std::ffi::OsString;
use std::fmt;

use crate::terminal::escape::escape_line;
use crate::terminal::shell::quote_word;

/// The base URL of the docs, set at build time. Without it, no page is suggested, since the folder `docs` is not
/// installed with the program.
const DOCS_URL: Option<&str> = option_env!("REDELIVER_DOCS_URL");

/// A command line that the user can copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextCommand {
    words: Vec<String>,
}

impl NextCommand {
    /// Creates a command line for a command of `redeliver`.
    #[must_use]
    pub fn new(command: &str) -> Self {
        Self { words: vec!["redeliver".to_owned(), command.to_owned()] }
    }

    /// Repeats the command line of this process. Returns `None` if an argument is not valid Unicode.
    pub fn from_args(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let given = arguments.into_iter().skip(1).map(|word| word.into_string().ok());
        let mut words = vec!["redeliver".to_owned()];
        words.extend(given.collect::<Option<Vec<_>>>()?);
        Some(Self { words })
    }

    /// Adds arguments, such as those that select a queue or a connection.
    #[must_use]
    pub fn with_words(mut self, words: impl IntoIterator<Item = String>) -> Self {
        self.words.extend(words);
        self
    }

    /// Adds an option and its value.
    #[must_use]
    pub fn with_option(self, name: &str, value: &str) -> Self {
        self.with_words([format!("--{name}"), value.to_owned()])
    }

    /// Adds an option without a value, before any `--`, which ends the options.
    #[must_use]
    pub fn with_flag(mut self, name: &str) -> Self {
        let end = self.words.iter().position(|word| word == "--").unwrap_or(self.words.len());
        self.words.insert(end, format!("--{name}"));
        self
    }

    /// Returns the arguments, not yet quoted for a shell.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns true if no argument contains characters that would be escaped, so that the printed command can be
    /// copied.
    #[must_use]
    pub fn is_printable(&self) -> bool {
        self.words.iter().all(|word| escape_line(word) == *word)
    }

    /// Formats the command, split into several lines for the shell if it is wider than the terminal.
    #[must_use]
    pub fn wrap_lines(&self, columns: Option<usize>, indent: usize) -> String {
        let line = self.to_string();
        let Some(columns) = columns.filter(|columns| indent + line.chars().count() > *columns) else {
            return line;
        };
        let (mut text, mut used) = (String::new(), indent);
        for (index, part) in self.quoted_parts().into_iter().enumerate() {
            let width = part.chars().count();
            // Two columns for ` \`.
            if index > 0 && used + 1 + width + 2 > columns {
                text += &format!(" \\\n{:indent$}  {part}", "");
                used = indent + 2 + width;
                continue;
            }
            if index > 0 {
                text.push(' ');
                used += 1;
            }
            text += &part;
            used += width;
        }
        text
    }

    /// Returns the command, followed by each option with its value, all quoted for a shell.
    fn quoted_parts(&self) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        for word in self.words.iter().map(|word| quote_word(word)) {
            match parts.last_mut() {
                Some(part) if !word.starts_with("--") => {
                    part.push(' ');
                    part.push_str(&word);
                }
                _ => parts.push(word),
            }
        }
        parts
    }
}

impl fmt::Display for NextCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.quoted_parts().join(" "))
    }
}

/// Returns the arguments for options with values.
pub fn option_words<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    options.into_iter().flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]).collect()
}

/// Returns the URL of a docs page, such as `operate/audit`, or `None` if the program was built without
/// `REDELIVER_DOCS_URL`.
#[must_use]
pub fn docs_url(page: &str) -> Option<String> {
    page_url(DOCS_URL, page)
}

fn page_url(site: Option<&str>, page: &str) -> Option<String> {
    let site = site.filter(|site| !site.is_empty())?;
    Some(format!("{}/{page}.html", site.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_for_the_shell_and_wrapped_before_an_option() {
        let command = NextCommand::new("redrive")
            .with_option("queue", "orders dlq")
            .with_flag("plain")
            .with_option("group", "1");
        assert_eq!(command.to_string(), "redeliver redrive --queue 'orders dlq' --plain --group 1");
        assert_eq!(command.wrap_lines(Some(80), 6), command.to_string());
        let narrow = command.wrap_lines(Some(45), 6);
        assert_eq!(
            narrow,
            "redeliver redrive \\\n        --queue 'orders dlq' --plain \\\n        --group 1"
        );
        assert!(narrow.lines().skip(1).all(|line| line.chars().count() <= 45), "{narrow}");
    }

    #[test]
    fn an_option_with_no_room_for_the_backslash_starts_a_new_line() {
        let command = NextCommand::new("redrive")
            .with_option("queue", "orders dlq")
            .with_flag("plain")
            .with_option("ids", "7")
            .with_option("group", "1");
        assert_eq!(
            command.wrap_lines(Some(45), 6),
            "redeliver redrive \\\n        --queue 'orders dlq' --plain \\\n        --ids 7 --group 1"
        );
    }

    #[test]
    fn a_repeated_command_line_has_all_its_arguments() {
        let words = ["/usr/bin/redeliver", "redrive", "--where", ".a == 'b'"].map(OsString::from);
        let again = NextCommand::from_args(words).unwrap().with_flag("apply");
        assert_eq!(again.to_string(), r#"redeliver redrive --where '.a == '\''b'\''' --apply"#);
    }

    #[test]
    fn a_flag_is_added_before_the_end_of_options_marker() {
        let words = ["redeliver", "redrive", "--to", "q", "--", "-dead.jsonl"].map(OsString::from);
        let again = NextCommand::from_args(words).unwrap().with_flag("apply");
        assert_eq!(again.words(), ["redeliver", "redrive", "--to", "q", "--apply", "--", "-dead.jsonl"]);
    }

    #[test]
    fn a_command_with_control_characters_is_not_printable() {
        assert!(NextCommand::new("audit").with_option("show", "1").is_printable());
        assert!(!NextCommand::new("audit").with_option("show", "1\u{202e}").is_printable());
    }

    #[test]
    fn a_docs_page_is_suggested_only_if_a_docs_url_is_set() {
        assert_eq!(page_url(None, "operate/audit"), None);
        let page = page_url(Some("https://example.org/redeliver/"), "operate/audit");
        assert_eq!(page.as_deref(), Some("https://example.org/redeliver/operate/audit.html"));
    }
}
