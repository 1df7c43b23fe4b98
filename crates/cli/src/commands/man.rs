//! `redeliver man`: the manual, one page per command, including everything that `--help` omits.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use redeliver_dead_letters::files::publish_file;
use redeliver_operator::files::unwritable_file_error;
use redeliver_operator::terminal::help::HelpFooter;
use redeliver_operator::{CommandFailure, ExitCode, UsageError};

/// The closing text of the help for `man`.
const CLOSING: HelpFooter = HelpFooter {
    command: "man",
    page: "install",
    examples: &["redeliver man ~/.local/share/man/man1", "redeliver man man1 && man man1/redeliver-send.1"],
    notes: &[],
    exit_codes: &[
        (ExitCode::Done, "", "The pages are written."),
        (ExitCode::Failed, "", "A page cannot be written."),
        (ExitCode::Usage, "", ""),
    ],
};

/// Write the manual pages into a directory, one page per command. Creates the directory, and replaces pages with the
/// same names.
#[derive(Debug, Args)]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// The directory for the pages
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes the pages; `command` is the complete program.
pub fn main(arguments: &Arguments, command: Command) -> Result<ExitCode, CommandFailure> {
    let directory = arguments.directory.display();
    if arguments.directory.is_file() {
        return Err(UsageError::new(format!("{directory} is a file; name a directory")).into());
    }
    write_pages(&arguments.directory, command)?;
    Ok(ExitCode::Done)
}

fn write_pages(directory: &Path, command: Command) -> Result<(), CommandFailure> {
    std::fs::create_dir_all(directory).map_err(|error| unwritable_file_error(directory, &error))?;
    let mut program = command.disable_help_subcommand(true);
    program.build();
    let source = format!("{} {}", program.get_name(), program.get_version().unwrap_or_default());
    for command in program.get_subcommands().chain([&program]) {
        let man = Man::new(command.clone()).source(&source).manual("redeliver");
        publish_file(&directory.join(man.get_filename()), &render_page(&man, command)?)?;
    }
    Ok(())
}

/// Renders `clap_mangen`'s page, except for the text after the options: `clap_mangen` would reflow and hyphenate its
/// examples.
fn render_page(man: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(text) = command.get_after_long_help() {
        render_closing(&text.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

/// Renders the text after a command's options: examples verbatim, notes, and exit codes.
fn render_closing(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut in_notes = false;
    for paragraph in text.split("\n\n") {
        let (heading, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        in_notes &= !matches!(heading, "Examples:" | "Exit codes:");
        match heading {
            "Examples:" => {
                roff.control("SH", ["EXAMPLES"]).control("nf", []);
                for line in rest.lines() {
                    // Continuation lines are indented.
                    roff.text([roman(line.strip_prefix("  ").unwrap_or(line).trim_end())]);
                }
                roff.control("fi", []);
            }
            "Exit codes:" => {
                roff.control("SH", ["EXIT STATUS"]);
                for line in rest.lines() {
                    match line.trim().split_once("  ") {
                        Some((code, meaning)) => {
                            roff.control("TP", []).text([bold(code)]).text([roman(meaning.trim())])
                        }
                        None => roff.text([roman(line.trim())]),
                    };
                }
            }
            _ => {
                if in_notes {
                    roff.control("PP", []);
                } else {
                    roff.control("SH", ["NOTES"]);
                }
                in_notes = true;
                roff.text([roman(paragraph)]);
            }
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_verbatim_and_exit_codes_are_a_list() {
        let text = "Examples:\n  redeliver x --y\n  .hidden\n\nA note.\n\nAnother.\n\nExit codes:\n  0    good\n  130  not";
        let page = render_closing(text).render();
        let lines: Vec<_> = page.lines().skip_while(|line| !line.starts_with(".SH")).collect();
        let expected = [
            ".SH EXAMPLES",
            ".nf",
            r"redeliver x \-\-y",
            r"\&.hidden",
            ".fi",
            ".SH NOTES",
            "A note.",
            ".PP",
            "Another.",
            r#".SH "EXIT STATUS""#,
            ".TP",
            r"\fB0\fR",
            "good",
            ".TP",
            r"\fB130\fR",
            "not",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    #[cfg(unix)]
    fn a_manual_page_replaces_a_link_and_is_world_readable() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (precious, page) = (folder.path().join("precious"), folder.path().join("redeliver.1"));
        publish_file(&precious, b"precious").unwrap();
        symlink(&precious, &page).unwrap();
        write_pages(folder.path(), Command::new("redeliver")).unwrap();
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
        assert!(std::fs::read_to_string(&page).unwrap().contains(".TH redeliver"));
        assert_eq!(page.metadata().unwrap().permissions().mode() & 0o444, 0o444);
    }
}
