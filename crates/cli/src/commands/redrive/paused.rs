//! Asks for confirmation before sending to a source queue without a consumer.

use redeliver_operator::CommandFailure;
use redeliver_operator::redrive::describe_missing_consumer;
use redeliver_operator::status::consumer::Consumer;
use redeliver_operator::terminal::stderr;

use super::Arguments;
use super::question::ask_yes_no;

/// True if the source queue has a consumer. Without a consumer, messages are sent only if the user confirms.
pub(super) fn has_consumer(arguments: &Arguments, consumer: &Consumer) -> Result<bool, CommandFailure> {
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
    if !arguments.apply.is_wanted() && !arguments.allow_paused {
        stderr::warning(describe_refusal(why));
    } else if arguments.allow_paused {
        stderr::remark(why);
    } else if !ask_yes_no(&format!("{}. Send them anyway? [y/N] ", describe_missing_consumer(why)))? {
        return Err(describe_refusal(why).into());
    }
    Ok(false)
}

/// Describes why nothing is sent without a consumer, and how to proceed.
fn describe_refusal(why: &str) -> String {
    let why = describe_missing_consumer(why);
    format!("{why}. Run `redeliver resume --apply` for this deployment first, or add --allow-paused")
}
