//! Sends the backups of a deletion again, as `send --backup` does with each of them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use redeliver_aws::Stop;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::{Clock, Queue};
use redeliver_dead_letters::files::open_own;
use redeliver_dead_letters::{ArchivedMessage, Backup};

use super::{Digest, Rules, Sender, Summary, Watcher, open_journal};
use crate::Failure;
use crate::file_journals::{check_not_begun, journal_of_redrive, journal_of_send};
use crate::message_file::{Form, Line};

/// SQS's ids of the messages in backups, each once, in order.
pub fn ids_in(backups: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let (mut seen, mut ids) = (BTreeSet::new(), Vec::new());
    for path in backups {
        for line in Form::Backup(Box::new(Backup::new(MessageSchema::default(), ""))).lines(own(path)?) {
            ids.extend(id_of(&line?).filter(|id| seen.insert(id.clone())));
        }
    }
    Ok(ids)
}

/// Sends the messages of backups to their source queue, each once: a run that was killed has left messages in the queue
/// that the next one has backed up again. Only the user's own files are read, and each has the journal of `redeliver
/// send`, so that neither sends what the other has.
///
/// # Errors
/// If a file or its journal cannot be used. What was sent until then is in the journals.
pub async fn restore<Q: Queue, C: Clock, T: Watcher>(
    backups: &[PathBuf],
    sender: &Sender<'_, Q, C, T>,
    schema: &MessageSchema,
    largest: usize,
    stop: &Stop,
) -> Result<Summary, Failure> {
    let mut all = Summary::default();
    let mut seen = BTreeSet::new();
    for path in backups {
        check_not_begun(&journal_of_redrive(path), "redeliver redrive")?;
        let form = Form::Backup(Box::new(Backup::new(schema.clone(), sender.queue.arn())));
        let (mut journal, mut confirmed) =
            open_journal(&journal_of_send(path), path, sender.queue.arn(), &form, false)?;
        let mut repeated = 0;
        for line in form.lines(own(path)?) {
            let line = line?;
            if id_of(&line).is_some_and(|id| !seen.insert(id)) {
                repeated += 1;
                confirmed.add(&[(line.number, line.number)], Digest::default());
            }
        }
        let steps = Rules { form, largest, confirmed }.steps(own(path)?);
        let steps = futures_util::stream::iter(steps);
        let Summary { sent, sent_before, invalid, unconfirmed, stopped, .. } =
            sender.send(steps, Some(&mut journal), stop.requested()).await;
        all.sent += sent;
        all.sent_before += sent_before.saturating_sub(repeated);
        all.invalid += invalid;
        all.unconfirmed += unconfirmed;
        all.stopped = stopped;
        if all.stopped.is_some() {
            break;
        }
    }
    Ok(all)
}

fn own(path: &Path) -> Result<BufReader<File>, Failure> {
    let opened = open_own(path, false).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(BufReader::new(opened))
}

fn id_of(line: &Line) -> Option<String> {
    let content = line.content.as_ref().ok()?;
    serde_json::from_slice::<ArchivedMessage>(content).ok().map(|archived| archived.sqs_message_id)
}
