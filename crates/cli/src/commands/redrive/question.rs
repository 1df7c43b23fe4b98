//! Asks the user a question, if a terminal is attached.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// True if the user answers `y` or `yes`. False without a terminal on both standard input and standard error.
pub(super) fn ask_yes_no(question: &str) -> io::Result<bool> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(false);
    }
    let mut answer = String::new();
    let mut stderr = io::stderr();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
