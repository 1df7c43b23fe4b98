//! The `--exec` option of `local` and `work`: the command that starts the user's own function.

use redeliver_aws::targets::RuntimeCommand;

/// Parses a command line into words, as a shell would.
pub(crate) fn parse_command(text: &str) -> Result<RuntimeCommand, String> {
    let words = shlex::split(text).ok_or("a quotation mark is not closed")?;
    RuntimeCommand::new(words.into_iter().map(Into::into)).ok_or_else(|| "it names no program".to_owned())
}
