//! Logs the location of a panic, but never its message.

use std::panic::{PanicHookInfo, set_hook};

use crate::stderr;

/// Logs every panic as one line on standard error, with its location but without its message, which may quote a payload
/// (for example, if a string is sliced inside a character).
pub fn log_without_message() {
    set_hook(Box::new(|info| stderr::write_line(format_panic(info))));
}

fn format_panic(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    serde_json::json!({ "level": "ERROR", "event": "panic", "place": place }).to_string()
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, take_hook};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn a_panic_is_logged_with_its_location_and_without_its_message() {
        let (lines, written) = channel();
        let (here, others) = (thread::current().id(), take_hook());
        // Hooks are process-wide, so panics in other tests are passed to the previous hook.
        set_hook(Box::new(move |info| match thread::current().id() == here {
            true => lines.send(format_panic(info)).expect("the test waits for it"),
            false => others(info),
        }));
        let panicked = catch_unwind(|| panic!("{}", "CANARY"));
        drop(take_hook());
        assert!(panicked.is_err());
        let line = written.recv().unwrap();
        assert!(line.starts_with(r#"{"event":"panic","level":"ERROR","place":"#), "{line}");
        assert!(line.contains("panics.rs:") && !line.contains("CANARY"), "{line}");
    }
}
