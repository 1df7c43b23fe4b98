//! The journal of a send. It lists the input lines confirmed by SQS, one record per batch. Each record is flushed
//! before the next is written. A record truncated by a crash is ignored.

mod file;

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::confirmed::{ConfirmedLines, Digest, group_into_ranges};
pub use file::open_journal;

const VERSION: u32 = 1;
/// The first bytes of every journal.
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
    /// Ranges of lines, each as its first and last line.
    lines: Vec<(usize, usize)>,
    digest: Digest,
}

/// The state read from a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReplayedJournal {
    /// The queue's ARN; `None` if the journal is empty.
    pub queue: Option<String>,
    /// The confirmed lines.
    pub confirmed: ConfirmedLines,
    /// Total size of the complete records, in bytes.
    pub bytes: u64,
}

/// Reads a journal up to its last complete record.
pub(super) fn read_journal(mut reader: impl BufRead) -> Result<ReplayedJournal, String> {
    let mut replayed = ReplayedJournal::default();
    for record in 1.. {
        let mut bytes = Vec::new();
        let length =
            reader.read_until(b'\n', &mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
        let invalid_record = || format!("record {record} is not a `redeliver send` journal record");
        if !bytes.ends_with(b"\n") {
            // The end of the file, or a record truncated by a crash. Callers remove the fragment, so first make sure
            // that the file is a journal.
            let is_journal = bytes.starts_with(BEGINNING) || BEGINNING.starts_with(&bytes);
            if record == 1 && !is_journal {
                return Err(invalid_record());
            }
            break;
        }
        if record == 1 {
            let header: SendJournalHeader = serde_json::from_slice(&bytes).map_err(|_| invalid_record())?;
            if header.redeliver_send != VERSION {
                return Err(invalid_record());
            }
            replayed.queue = Some(header.queue);
        } else {
            let BatchRecord { lines, digest } =
                serde_json::from_slice(&bytes).map_err(|_| invalid_record())?;
            if lines.iter().any(|(first, last)| first > last) {
                return Err(invalid_record());
            }
            replayed.confirmed.add(&lines, digest);
        }
        replayed.bytes += length as u64;
    }
    Ok(replayed)
}

/// A journal that is open for writing.
#[derive(Debug)]
pub struct SendJournal<W> {
    output: W,
}

impl<W: Write> SendJournal<W> {
    /// Starts a journal with a header record, which contains the format version and the queue's ARN.
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
        // Batches can be confirmed in any order; XOR does not depend on it.
        let mut digest = Digest::default();
        for (_, line_digest) in lines {
            digest ^= *line_digest;
        }
        self.append_record(&BatchRecord {
            lines: group_into_ranges(lines.iter().map(|(number, _)| *number)),
            digest,
        })
    }

    /// Returns the underlying writer.
    #[cfg(test)]
    pub fn into_output(self) -> W {
        self.output
    }

    fn append_record(&mut self, record: &impl Serialize) -> io::Result<()> {
        // A single write per record. A crash can still truncate it, but a record without a line break is ignored.
        let mut bytes = serde_json::to_vec(record)?;
        bytes.push(b'\n');
        self.output.write_all(&bytes)?;
        self.output.flush()
    }
}

#[cfg(test)]
mod tests;
