//! The log of the process itself: JSON lines on standard error. The functions' log is on standard output. Both are also
//! exported by OTLP, if that is asked for.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex};

use redeliver_aws::SystemClock;
use redeliver_core::lock;
use redeliver_core::message::metadata::rfc3339;
use redeliver_core::ports::Clock as _;
use serde_json::{Value, json};

/// Lines kept until the next export; further ones are dropped and counted.
const LINES_MAX: usize = 2048;

/// The process's log. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// `None` if no log is exported.
    pub(super) exported: Option<Arc<LogQueue>>,
}

impl Log {
    pub(super) fn info(&self, event: &str, fields: Value) {
        self.write("INFO", event, fields);
    }

    pub(super) fn warn(&self, event: &str, remark: &str) {
        self.write("WARN", event, json!({ "remark": remark }));
    }

    pub(super) fn error(&self, event: &str, error: &str) {
        self.write("ERROR", event, json!({ "error": error }));
    }

    fn write(&self, level: &str, event: &str, mut line: Value) {
        line["timestamp"] = rfc3339(SystemClock.now()).into();
        line["level"] = level.into();
        line["event"] = event.into();
        // A closed standard error must not stop the functions.
        let _ = self.tee(io::stderr()).write_all(format!("{line}\n").as_bytes());
    }

    /// A writer of whole lines, which are exported, too.
    pub(super) fn tee<W>(&self, writer: W) -> Tee<W> {
        Tee { writer, exported: self.exported.clone() }
    }
}

/// Lines that wait for their export.
#[derive(Debug, Default)]
pub(super) struct LogQueue(Mutex<Waiting>);

#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) lines: Vec<String>,
    pub(super) dropped: u64,
}

impl LogQueue {
    fn push(&self, lines: &[u8]) {
        let mut waiting = lock(&self.0);
        for line in String::from_utf8_lossy(lines).lines() {
            if waiting.lines.len() < LINES_MAX {
                waiting.lines.push(line.to_owned());
            } else {
                waiting.dropped += 1;
            }
        }
    }

    /// Takes the lines, and the number of those that had no room.
    pub(super) fn take(&self) -> Waiting {
        mem::take(&mut *lock(&self.0))
    }
}

/// Writes whole lines, and keeps a copy for their export.
#[derive(Debug)]
pub(super) struct Tee<W> {
    writer: W,
    exported: Option<Arc<LogQueue>>,
}

impl<W: Write> Write for Tee<W> {
    /// Writes all or fails, so that a line is kept once.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if let Some(exported) = &self.exported {
            exported.push(lines);
        }
        self.writer.write_all(lines).map(|()| lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_room_are_dropped_and_counted_and_all_are_written() {
        let log = Log { exported: Some(Arc::default()) };
        let mut written = Vec::new();
        for number in 0..LINES_MAX + 3 {
            log.tee(&mut written).write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        let queue = log.exported.unwrap();
        let Waiting { lines, dropped } = queue.take();
        assert_eq!((lines.len(), lines.last().unwrap().as_str(), dropped), (LINES_MAX, "2047", 3));
        assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), LINES_MAX + 3);
        assert!(queue.take().lines.is_empty());
    }

    #[test]
    fn a_line_that_cannot_be_written_is_exported_once() {
        let log = Log { exported: Some(Arc::default()) };
        let mut full = [0; 1];
        log.tee(&mut full[..]).write_all(b"one\ntwo\n").unwrap_err();
        assert_eq!(log.exported.unwrap().take().lines, ["one", "two"]);
    }
}
