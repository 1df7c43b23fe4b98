//! Purging: each dead letter is deleted after it is in a backup.

use redeliver_core::ports::{Clock, Queue};
use serde::Serialize;

use crate::groups::{Group, GroupTable};
use crate::{Archive, Choice, Coverage, DeadLetterRecord, Failure, NotDeleted, NotJudged, Pick, Reader};

/// The result of a purge, or of its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Purged {
    pub picked: u64,
    /// Their groups, the largest first.
    pub groups: Vec<Group>,
    pub deleted: u64,
    /// Messages that the filter failed on. They stay.
    pub not_judged: NotJudged,
    /// The reason why the last of the others was not deleted.
    pub why_not_deleted: Option<NotDeleted>,
    /// The error that ended it.
    pub failed: Option<String>,
    /// The part of the queue that was read.
    pub coverage: Option<Coverage>,
    pub interrupted: bool,
    /// `max` has ended it: there may be more.
    pub max_reached: bool,
}

/// Where messages go before they are deleted.
pub trait BackupWriter {
    /// Returns once all of them are safely kept.
    ///
    /// # Errors
    /// If one of them is not: none of them may be deleted then.
    fn keep(&mut self, records: &[DeadLetterRecord]) -> impl Future<Output = Result<(), Failure>>;
}

impl BackupWriter for Archive {
    async fn keep(&mut self, records: &[DeadLetterRecord]) -> Result<(), Failure> {
        Ok(self.write(records.iter().map(|record| &record.message))?)
    }
}

/// Stop after this many deletions in a row without a confirmed one.
const DELETIONS_FAILED_MAX: u64 = 10;

/// Deletes at most `max` selected messages, each after it is in the backup. Without a backup it deletes nothing.
/// Reports the number of deletions so far.
///
/// # Errors
/// If the queue, the backup or the filter fails.
pub async fn purge<Q: Queue, C: Clock>(
    queue: &Q,
    clock: &C,
    pick: &Pick,
    max: u64,
    mut backup: Option<&mut impl BackupWriter>,
    interrupted: &dyn Fn() -> bool,
    progress: &dyn Fn(u64),
) -> Result<Purged, Failure> {
    let mut purged = Purged::default();
    let mut groups = GroupTable::default();
    let mut deletions_failed = 0;
    let mut reader = Reader::new(queue, clock).await?;
    let outcome = async {
        while let Some(messages) = reader.next().await? {
            let mut picked = Vec::new();
            for message in messages {
                let record = DeadLetterRecord::new(message);
                let is_one_more = purged.picked + (picked.len() as u64) < max;
                if !is_one_more {
                    continue;
                }
                match pick.picks(&record)? {
                    Choice::Picked => picked.push(record),
                    Choice::NotPicked => {}
                    Choice::NotJudged(why) => purged.not_judged.add(&record, why),
                }
            }
            // Not before the filter has answered for all of them: if it gives no answer for one, it is wrong, and none of
            // them is deleted.
            picked.iter().for_each(|record| groups.add(record));
            purged.picked += picked.len() as u64;
            if let Some(backup) = &mut backup {
                // Kept first. If the process dies between the two, messages are in the backup and in the queue;
                // never in neither.
                backup.keep(&picked).await?;
                let picked: Vec<_> = picked.iter().map(|record| &record.message).collect();
                for outcome in reader.delete(&picked).await {
                    match outcome {
                        Ok(()) => {
                            deletions_failed = 0;
                            purged.deleted += 1;
                        }
                        Err(why) => {
                            // A message that another program may have received says nothing about the next one.
                            deletions_failed += u64::from(matches!(why, NotDeleted::Failed(_)));
                            purged.why_not_deleted = Some(why);
                        }
                    }
                }
                progress(purged.deleted);
            }
            if deletions_failed >= DELETIONS_FAILED_MAX {
                break;
            }
            if interrupted() {
                purged.interrupted = true;
                break;
            }
            if purged.picked >= max {
                purged.max_reached = true;
                break;
            }
        }
        Ok(())
    };
    let outcome: Result<(), Failure> = outcome.await;
    let outcome = outcome.and_then(|()| Ok(pick.check_filter()?));
    purged.coverage = Some(reader.finish().await);
    purged.groups = groups.into_groups();
    match outcome {
        // The work until then must be reported nevertheless.
        Err(error) if purged.deleted > 0 => Ok(Purged { failed: Some(error.to_string()), ..purged }),
        outcome => outcome.map(|()| purged),
    }
}
