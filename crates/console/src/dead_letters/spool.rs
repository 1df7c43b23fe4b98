//! Keeps a snapshot's messages on disk instead of in memory: a DLQ can hold a hundred thousand messages of a mebibyte
//! each. The file has no name while in use, so no payload is ever left behind. Only its owner can read it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Mutex;

use redeliver_core::lock;
use redeliver_core::message::ReceivedMessage;
use redeliver_dead_letters::ArchivedMessage;
use redeliver_dead_letters::files::make_private;

/// Maximum size of a snapshot, in bytes. The reading stops there, and the page reports it.
pub(crate) const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Spool {
    file: Mutex<File>,
    end: u64,
}

/// A message's position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpoolPosition {
    start: u64,
    bytes: usize,
}

impl Spool {
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        // Linux gives a file without a name the same permissions as any other file.
        make_private(&file)?;
        Ok(Self { file: Mutex::new(file), end: 0 })
    }

    pub(crate) const fn byte_count(&self) -> u64 {
        self.end
    }

    pub(crate) fn append_message(&mut self, message: &ReceivedMessage) -> io::Result<SpoolPosition> {
        let line = serde_json::to_vec(&ArchivedMessage::new(message))?;
        let place = SpoolPosition { start: self.end, bytes: line.len() };
        let mut file = lock(&self.file);
        file.seek(SeekFrom::Start(self.end))?;
        file.write_all(&line)?;
        self.end += line.len() as u64;
        Ok(place)
    }

    pub(crate) fn read_message(&self, place: SpoolPosition) -> io::Result<ReceivedMessage> {
        let mut line = vec![0; place.bytes];
        let mut file = lock(&self.file);
        file.seek(SeekFrom::Start(place.start))?;
        file.read_exact(&mut line)?;
        drop(file);
        let archived: ArchivedMessage = serde_json::from_slice(&line)?;
        archived
            .into_message()
            .ok_or_else(|| io::Error::other("a message of this reading cannot be read back"))
    }
}

#[cfg(test)]
mod tests {
    use redeliver_testing::dead_letters::retried_record;

    use super::*;

    #[test]
    #[cfg(unix)]
    fn messages_are_read_back_unchanged_and_no_file_remains() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(folder.path()).unwrap();
        let messages: Vec<_> =
            (1..=3).map(|number| retried_record("NON_RETRYABLE_ERROR", "x\u{0}\u{202e}", number)).collect();
        let places: Vec<_> = messages.iter().map(|message| spool.append_message(message).unwrap()).collect();
        for (message, place) in messages.iter().zip(&places).rev() {
            let back = spool.read_message(*place).unwrap();
            assert_eq!(ReceivedMessage { receipt_handle: message.receipt_handle.clone(), ..back }, *message);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "not even while it is in use");
        let permissions = spool.file.lock().unwrap().metadata().unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777, 0o600);
        drop(spool);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
