//! `--exec` of `local` and `work`: the command of the user's own function.

use redeliver_aws::targets::RuntimeCommand;

/// Splits a command into words as a shell does.
pub(crate) fn command(text: &str) -> Result<RuntimeCommand, String> {
    let words = shlex::split(text).ok_or("a quotation mark is not closed")?;
    RuntimeCommand::new(words.into_iter().map(Into::into)).ok_or_else(|| "it names no program".to_owned())
}
