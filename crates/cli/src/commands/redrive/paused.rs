//! Asks whether to send to a source queue that has no consumer.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use redeliver_operator::redrive::not_consumed;

/// The error if there is no terminal to ask on.
pub(super) fn refusal(why: &str) -> String {
    let why = not_consumed(why);
    format!("{why}. Run `redeliver resume --apply` for this deployment first, or add --into-paused")
}

/// Asks the user, if there is a terminal.
pub(super) fn is_wanted(why: &str) -> io::Result<bool> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(false);
    }
    let mut answer = String::new();
    let mut stderr = io::stderr();
    write!(stderr, "{}. Send them anyway? [y/N] ", not_consumed(why))?;
    stderr.flush()?;
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
