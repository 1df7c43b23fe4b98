//! Asks for confirmation before sending to a source queue without a consumer.

use redeliver_operator::CommandFailure;
use redeliver_operator::redrive::not_consumed;
use redeliver_operator::status::consumer::Consumer;
use redeliver_operator::terminal::stderr;

use super::Arguments;
use super::question::is_answered_yes;

/// True if the source queue has a consumer. Without a consumer, messages are sent only if the user confirms.
pub(super) fn is_consumed(arguments: &Arguments, consumer: &Consumer) -> Result<bool, CommandFailure> {
    let why = match consumer {
        Consumer::Present => return Ok(true),
        Consumer::Unknown(words) => {
            stderr::warning(format_args!(
                "could not determine whether the source queue has a consumer: {words}"
            ));
            return Ok(true);
        }
        Consumer::Absent(why) => why,
    };
    if !arguments.apply.is_wanted() && !arguments.into_paused {
        stderr::warning(describe_refusal(why));
    } else if arguments.into_paused {
        stderr::remark(why);
    } else if !is_answered_yes(&format!("{}. Send them anyway? [y/N] ", not_consumed(why)))? {
        return Err(describe_refusal(why).into());
    }
    Ok(false)
}

/// Returns the error if there is no terminal for the question.
fn describe_refusal(why: &str) -> String {
    let why = not_consumed(why);
    format!("{why}. Run `redeliver resume --apply` for this deployment first, or add --into-paused")
}
