//! The program's help. `-h`, `--help` and `help` print the same short text, and `redeliver --help` lists the commands
//! in groups. The long text of an option or a command appears only in its manual page.

use clap::builder::{PossibleValue, Resettable, StyledStr};
use clap::{Arg, ArgAction, Command};
use redeliver_operator::terminal::help::ALL_COMMANDS;

/// The commands, grouped and ordered as in `redeliver --help`.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Try it here", &["local", "check"]),
    ("Plan", &["simulate"]),
    ("Deploy", &["permissions", "preflight"]),
    (
        "Operate",
        &["status", "audit", "redrive", "purge", "unblock", "send", "pause", "resume", "fleet", "console"],
    ),
    ("Run", &["work"]),
    ("Install", &["completions", "man"]),
];

/// The width of the names in the list of commands.
const NAME_WIDTH: usize = 13;

/// Adds `-h` and `-V` to the options of every command.
pub(crate) fn with_help_options(program: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").global(true).action(ArgAction::HelpShort);
    let version = Arg::new("version").short('V').long("version").action(ArgAction::Version);
    program
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(help.help("Print help").help_heading(ALL_COMMANDS))
        .arg(version.help("Print the version and the commit").help_heading(ALL_COMMANDS))
}

/// Returns the program as used at run time, without its long help.
pub(crate) fn with_short_help(program: Command) -> Command {
    let list = command_list_template(&program);
    shorten_help(program.mut_subcommands(shorten_help)).help_template(list)
}

/// Returns the program for manual pages and completions, with a one-sentence description per command.
pub(crate) fn with_one_sentence_descriptions(program: Command) -> Command {
    program.mut_subcommands(|command| {
        let about = command_about(&command);
        let description = command.get_long_about().map_or_else(|| format!("{about}."), ToString::to_string);
        command.about(first_sentence(&about).to_owned()).long_about(description)
    })
}

fn shorten_help(command: Command) -> Command {
    let about = format!("{}.", command_about(&command));
    command
        .about(about)
        .long_about(Resettable::Reset)
        .after_long_help(Resettable::Reset)
        .mut_args(shorten_argument_help)
}

/// Names the possible values on the option's line. Describing each value would make clap's help too long.
fn shorten_argument_help(argument: Arg) -> Arg {
    let argument = argument.long_help(Resettable::Reset);
    let values = argument.get_possible_values();
    if values.is_empty() || !argument.get_action().takes_values() {
        return argument;
    }
    let names: Vec<_> = values.iter().map(PossibleValue::get_name).collect();
    let help = format!("{}: {}", argument.get_help().cloned().unwrap_or_default(), names.join(", "));
    argument.hide_possible_values(true).help(help)
}

/// Builds the template of `redeliver --help`.
fn command_list_template(program: &Command) -> StyledStr {
    let header = program.get_styles().get_header();
    let line = |name: &&str| {
        let about = program.find_subcommand(name).map(command_about).unwrap_or_default();
        format!("  {name:NAME_WIDTH$}{}\n", first_sentence(&about))
    };
    let group = |(title, names): &(&str, &[&str])| {
        format!("{header}{title}:{header:#}\n{}\n", names.iter().map(line).collect::<String>())
    };
    let groups: String = GROUPS.iter().map(group).collect();
    let options = format!("{header}{ALL_COMMANDS}:{header:#}\n{{options}}");
    format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{options}{{after-help}}").into()
}

fn command_about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn first_sentence(about: &str) -> &str {
    about.split_once(". ").map_or(about, |(first, _)| first)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Renders each command's help at this terminal width.
    fn render_help_texts(columns: usize) -> Vec<(String, String)> {
        let mut program = with_short_help(crate::build_program()).term_width(columns);
        program.build();
        let commands = program.get_subcommands().filter(|command| command.get_name() != "help");
        commands
            .map(|command| (command.get_name().to_owned(), command.clone().render_help().to_string()))
            .collect()
    }

    /// Returns the lines of a section, such as "Examples".
    fn section<'a>(help: &'a str, name: &str) -> Vec<&'a str> {
        let (_, section) = help.split_once(&format!("\n{name}:\n")).expect("the help has this section");
        section.lines().take_while(|line| !line.is_empty()).collect()
    }

    /// Returns the `redeliver` commands in a command line, without pipes and redirections.
    fn parse_redeliver_commands(example: &str) -> Vec<Vec<String>> {
        let words = shlex::split(example).expect("quotation marks are closed");
        let commands = words.split(|word| ["|", "&&", ">", ">>"].contains(&word.as_str()));
        let ours = commands.filter(|words| words.first().is_some_and(|word| word == "redeliver"));
        ours.map(<[String]>::to_vec).collect()
    }

    /// True if the line lists possible values, which can take several lines.
    fn lists_possible_values(line: &str) -> bool {
        line.split_once(": ").is_some_and(|(_, values)| values.matches(',').count() > 1)
    }

    #[test]
    fn help_fits_a_page_of_100_columns() {
        for (name, help) in render_help_texts(100) {
            let limit = if ["redrive", "audit"].contains(&name.as_str()) { 80 } else { 60 };
            let lines: Vec<_> = help.lines().collect();
            assert!(lines.len() <= limit, "{name} has {} lines:\n{help}", lines.len());
            assert!(lines.iter().all(|line| line.chars().count() <= 100), "{help}");
        }
    }

    #[test]
    fn an_option_without_a_value_list_fits_on_one_line_at_100_columns() {
        for (name, help) in render_help_texts(100) {
            let (options, _) = help.split_once("\nExamples:\n").expect("the help has examples");
            let lines: Vec<_> = options.lines().collect();
            let is_continuation =
                |line: &str| line.starts_with("        ") && !line.trim_start().starts_with("--");
            let broken =
                lines.windows(2).filter(|pair| is_continuation(pair[1]) && !lists_possible_values(pair[0]));
            let broken: Vec<_> = broken.collect();
            assert!(broken.is_empty(), "{name}: {broken:#?}");
        }
    }

    #[test]
    fn each_exit_code_fits_on_one_line_at_80_columns() {
        for (name, help) in render_help_texts(80) {
            for line in section(&help, "Exit codes") {
                let code = line.split_whitespace().next().and_then(|code| code.parse::<u8>().ok());
                assert!(code.is_some(), "{name}: {line:?}");
            }
        }
    }

    #[test]
    fn help_has_at_most_three_examples_and_each_one_parses() {
        for (name, help) in render_help_texts(80) {
            let text = section(&help, "Examples").join("\n").replace("\\\n", "");
            let examples: Vec<_> = text.lines().collect();
            assert!(!examples.is_empty() && examples.len() <= 3, "{name}: {examples:#?}");
            for example in examples {
                let commands = parse_redeliver_commands(example);
                assert!(commands.iter().any(|words| words[1] == name), "{name}: {example}");
                for words in commands {
                    let parsed = crate::build_program().try_get_matches_from(&words);
                    assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
                }
            }
        }
    }

    #[test]
    fn every_example_in_the_manual_parses() {
        for command in crate::build_program().get_subcommands() {
            let text = command.get_after_long_help().expect("the help has examples").to_string();
            let examples = section(&format!("\n{text}"), "Examples").join("\n").replace("\\\n", "");
            for words in examples.lines().flat_map(parse_redeliver_commands) {
                let parsed = crate::build_program().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn help_names_a_docs_page_and_the_manual_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (name, help) in render_help_texts(100) {
            let more = help.lines().last().and_then(|line| line.strip_prefix("More: "));
            let (page, manual) =
                more.and_then(|more| more.split_once(", ")).expect("the help ends with both");
            assert_eq!(manual, format!("man redeliver-{name}"));
            assert!(page.starts_with("https://") || root.join(page).is_file(), "{name}: {page}");
        }
    }

    /// `redeliver help audit` must not print the long text.
    #[test]
    fn every_form_of_help_prints_the_same_text() {
        let program = with_short_help(crate::build_program());
        let ask = |words: [&str; 3]| program.clone().try_get_matches_from(words).unwrap_err().to_string();
        for command in program.get_subcommands().map(Command::get_name) {
            let help = ask(["redeliver", command, "--help"]);
            assert_eq!(ask(["redeliver", command, "-h"]), help);
            assert_eq!(ask(["redeliver", "help", command]), help);
        }
    }

    #[test]
    fn every_command_is_in_exactly_one_group_and_fits_on_one_line() {
        let mut program = with_short_help(crate::build_program()).term_width(80);
        let named: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let commands: BTreeSet<_> = program.get_subcommands().map(Command::get_name).collect();
        assert_eq!(named.len(), commands.len());
        assert_eq!(named.into_iter().collect::<BTreeSet<_>>(), commands);
        let help = program.render_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }

    /// An option without a heading would be listed first, under "Options".
    #[test]
    fn every_option_is_in_a_group() {
        for command in with_short_help(crate::build_program()).get_subcommands() {
            let mut options = command.get_arguments().filter(|argument| !argument.is_positional());
            let without = options.find(|option| option.get_help_heading().is_none());
            assert!(without.is_none(), "{}: {without:?}", command.get_name());
        }
    }
}
