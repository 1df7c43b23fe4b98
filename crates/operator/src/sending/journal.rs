//! The journal of a send: the lines of the input confirmed by SQS, one record per batch. Each record is written and
//! flushed before the next. A record truncated by a crash does not count.

mod file;

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::confirmed::{ConfirmedLines, Digest, number_ranges};
pub use file::open_journal;

const VERSION: u32 = 1;
/// The prefix of every journal.
const BEGINNING: &[u8] = br#"{"redeliver_send":"#;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SendJournalHeader {
    /// The version of this format.
    redeliver_send: u32,
    queue: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRecord {
    /// First and last line of each range.
    lines: Vec<(usize, usize)>,
    digest: Digest,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    /// The queue's ARN; `None` if the journal is empty.
    pub queue: Option<String>,
    /// The lines sent to this queue.
    pub confirmed: ConfirmedLines,
    /// Total size of complete records, in bytes.
    pub bytes: u64,
}

/// Reads a journal.
pub(super) fn read_journal(mut reader: impl BufRead) -> Result<Replayed, String> {
    let mut known = Replayed::default();
    for record in 1.. {
        let mut bytes = Vec::new();
        let length =
            reader.read_until(b'\n', &mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
        let damaged = || format!("record {record} is not one of a `redeliver send` journal");
        if !bytes.ends_with(b"\n") {
            // The end of the file, or a record truncated by a crash. It will be removed, so check first that the file
            // is a journal.
            let ours = bytes.starts_with(BEGINNING) || BEGINNING.starts_with(&bytes);
            if record == 1 && !ours {
                return Err(damaged());
            }
            break;
        }
        if record == 1 {
            let header: SendJournalHeader = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
            if header.redeliver_send != VERSION {
                return Err(damaged());
            }
            known.queue = Some(header.queue);
        } else {
            let BatchRecord { lines, digest } = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
            if lines.iter().any(|(first, last)| first > last) {
                return Err(damaged());
            }
            known.confirmed.add(&lines, digest);
        }
        known.bytes += length as u64;
    }
    Ok(known)
}

/// An open journal to write to.
#[derive(Debug)]
pub struct SendJournal<W> {
    output: W,
}

impl<W: Write> SendJournal<W> {
    /// Starts a journal: its first record contains the version of the format and the ARN of the queue.
    pub fn begin(output: W, queue: &str) -> io::Result<Self> {
        let mut journal = Self { output };
        journal.append_record(&SendJournalHeader { redeliver_send: VERSION, queue: queue.to_owned() })?;
        Ok(journal)
    }

    /// Continues a journal that ends with a complete record.
    pub fn resume(output: W) -> Self {
        Self { output }
    }

    /// Records confirmed lines, in ascending order.
    pub fn record_confirmed(&mut self, lines: &[(usize, Digest)]) -> io::Result<()> {
        // Batches are confirmed in any order, and exclusive or does not depend on it.
        let mut digest = Digest::default();
        for (_, of_line) in lines {
            digest ^= *of_line;
        }
        self.append_record(&BatchRecord {
            lines: number_ranges(lines.iter().map(|(number, _)| *number)),
            digest,
        })
    }

    /// The underlying writer.
    #[cfg(test)]
    pub fn into_output(self) -> W {
        self.output
    }

    fn append_record(&mut self, record: &impl Serialize) -> io::Result<()> {
        // One write for the whole record. A crash may still truncate it, but then it has no line break and does not
        // count.
        let mut bytes = serde_json::to_vec(record)?;
        bytes.push(b'\n');
        self.output.write_all(&bytes)?;
        self.output.flush()
    }
}

#[cfg(test)]
mod tests;
