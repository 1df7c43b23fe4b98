//! Standard error, which may be a closed pipe or a file on a full disk.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Writes a line to standard error, or drops it if the write fails. `eprintln!` would panic, and printing the panic's
/// message would panic again, which aborts the process.
pub fn write_line(text: impl Display) {
    write_to(stderr(), text);
}

fn write_to(mut output: impl Write, text: impl Display) {
    let _lost = writeln!(output, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_stderr_write_does_not_panic() {
        let mut written = Vec::new();
        write_to(&mut written, "a\nb");
        assert_eq!(written, b"a\nb\n");
        let mut full = [0; 1];
        write_to(&mut full[..], "two");
        assert_eq!(full, *b"t", "the rest does not fit");
    }
}
