//! Whether anybody takes what is sent to the source queue; if not, whether it is to be sent all the same.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::event_sources::{LambdaError, Mapping};

/// Who takes messages from the source queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Consumer {
    /// A function does; or whoever reads the queue of somebody else's.
    There,
    /// Nobody; a sentence says why.
    Nobody(String),
    /// Lambda does not say; its words.
    Unknown(String),
}

impl Consumer {
    /// By the mappings of the queue, or Lambda's refusal to say which these are.
    pub(crate) fn of(mappings: Result<Vec<Mapping>, LambdaError>, is_stack: bool) -> Self {
        match mappings {
            // A container or a program of somebody's own may read it.
            Ok(mappings) if mappings.is_empty() && is_stack => {
                Self::Unknown("no event source mapping reads it, but containers may".to_owned())
            }
            Ok(mappings) if mappings.is_empty() => Self::There,
            Err(_) if !is_stack => Self::There,
            Err(error) => Self::Unknown(error.to_string()),
            Ok(mappings) if mappings.iter().any(is_on) => Self::There,
            Ok(mappings) => {
                let functions: Vec<_> = mappings
                    .iter()
                    .map(|mapping| format!("that of {} is {}", mapping.function, mapping.state))
                    .collect();
                let functions = functions.join(", ");
                Self::Nobody(format!("the source queue's event source mapping is off: {functions}"))
            }
        }
    }
}

/// Whether it reads its queue, or will in a moment.
fn is_on(mapping: &Mapping) -> bool {
    matches!(mapping.state.as_str(), "Enabled" | "Enabling" | "Creating" | "Updating")
}

/// What is refused without a word from a person.
pub(super) fn refusal(why: &str) -> String {
    format!(
        "{why}: what is sent back waits there, for as long as the queue keeps messages, and nothing of it can be watched. Run \
         `redeliver resume --apply` first, or add --into-paused"
    )
}

/// Asks a person, if there is one.
pub(super) fn is_wanted(why: &str) -> io::Result<bool> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(false);
    }
    let mut answer = String::new();
    eprint!(
        "{why}: what is sent back waits there, and nothing of it can be watched. Send it all the same? [y/N] "
    );
    io::stderr().flush()?;
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(state: &str) -> Mapping {
        Mapping {
            uuid: "u".to_owned(),
            function: "prod-message-processor".to_owned(),
            state: state.to_owned(),
            batch_size: None,
            maximum_concurrency: None,
        }
    }

    #[test]
    fn a_paused_stack_is_told_and_a_queue_of_somebody_elses_is_not_judged() {
        let off =
            "the source queue's event source mapping is off: that of prod-message-processor is Disabled";
        let containers = Consumer::Unknown("no event source mapping reads it, but containers may".to_owned());
        for (mappings, is_stack, expected) in [
            (vec![mapping("Enabled")], true, Consumer::There),
            (vec![mapping("Enabling")], true, Consumer::There),
            (vec![mapping("Disabled"), mapping("Enabled")], true, Consumer::There),
            (vec![mapping("Disabled")], true, Consumer::Nobody(off.to_owned())),
            (vec![mapping("Disabled")], false, Consumer::Nobody(off.to_owned())),
            (vec![], true, containers),
            (vec![], false, Consumer::There),
        ] {
            assert_eq!(Consumer::of(Ok(mappings.clone()), is_stack), expected, "{mappings:?} {is_stack}");
        }
    }
}
