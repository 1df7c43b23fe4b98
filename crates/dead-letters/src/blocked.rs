//! The blocked groups of an ordered queue (`on_give_up: block`): listed, and unblocked.

use std::collections::BTreeMap;
use std::time::Duration;

use redeliver_core::blocked::Blocked;
use redeliver_core::deliver::deletion::delete;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, EntryError, Queue};
use serde::Serialize;

use crate::groups::written;
use crate::purge::BackupWriter;
use crate::{Coverage, DeadLetterRecord, Failure, NotDeleted, Reader, ReaderError, with_right};

/// A group whose first message was given up, and waits hidden on the source queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockedGroup {
    /// Its `MessageGroupId`.
    pub group: String,
    /// The first receive of that message, RFC 3339: since then the group waits.
    pub since: String,
    pub message_id: String,
    /// The reason why it was given up: a code.
    pub error_type: String,
    /// The reason in words.
    pub error_details: String,
    /// Retries made; `None` if nothing was called.
    pub attempts: Option<u32>,
    /// The time of its last notice, RFC 3339. It is called once more 12 hours later, and if that fails, there is another.
    pub told_at: String,
    #[serde(skip)]
    notices: Vec<ReceivedMessage>,
    #[serde(skip)]
    receipt_handle: String,
}

impl BlockedGroup {
    /// The group by its last notice: an earlier one has a handle that is no longer valid. `None` without a notice.
    #[must_use]
    pub fn of(mut notices: Vec<ReceivedMessage>) -> Option<Self> {
        notices.retain(|notice| Blocked::read(notice).is_some());
        notices.sort_by_key(|notice| notice.sent_at);
        let last = notices.last()?;
        let Blocked { receipt_handle, waiting_since, verdict } = Blocked::read(last)?;
        let record = DeadLetterRecord::new(last.clone());
        let failure = verdict.case.map(|case| case.failure);
        Some(Self {
            group: last.message_group_id.clone().unwrap_or_default(),
            since: written(waiting_since),
            message_id: record.metadata.map_or_else(
                || {
                    failure
                        .as_ref()
                        .map_or_else(String::new, |failure| failure.delivery.source_message_id.clone())
                },
                |metadata| metadata.message_id_text,
            ),
            error_type: record.error_type,
            error_details: record.error_details,
            attempts: failure.and_then(|failure| failure.attempts),
            told_at: written(last.sent_at),
            receipt_handle,
            notices,
        })
    }
}

/// The decision on blocked groups.
pub enum Decision<'a, B> {
    /// None yet: they are only listed.
    Later,
    /// The message is called again at once, in its place.
    Retry,
    /// The message is deleted after it is in the backup, and its group goes on without it.
    TakeOut(&'a mut B),
}

/// A group, and what became of the decision on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    #[serde(flatten)]
    pub group: BlockedGroup,
    /// True if it is not blocked any more; `false` of a plan.
    pub unblocked: bool,
    /// The reason why it stays blocked, or why its notice is still there.
    pub error: Option<String>,
}

/// The blocked groups of a queue, and the names of groups that are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unblocked {
    pub groups: Vec<Outcome>,
    pub not_blocked: Vec<String>,
    /// The notices that were read. More may not be visible yet, or another program has received them.
    pub coverage: Coverage,
}

/// The time for which a message is hidden while it is taken out.
const TAKING_OUT: Duration = Duration::from_secs(60);

/// The blocked groups by their notices, the longest-waiting first.
///
/// # Errors
/// If the queue cannot be read.
pub async fn blocked_groups<Q: Queue, C: Clock>(
    blocked: &Q,
    clock: &C,
) -> Result<Vec<BlockedGroup>, ReaderError> {
    let mut reader = Reader::new(blocked, clock).await?;
    let groups = read(&mut reader).await;
    reader.finish().await;
    groups
}

async fn read<Q: Queue, C: Clock>(reader: &mut Reader<'_, Q, C>) -> Result<Vec<BlockedGroup>, ReaderError> {
    let mut notices = BTreeMap::<String, Vec<ReceivedMessage>>::new();
    while let Some(messages) = reader.next().await? {
        for message in messages {
            let group = message.message_group_id.clone().unwrap_or_default();
            notices.entry(group).or_default().push(message);
        }
    }
    let mut groups: Vec<_> = notices.into_values().filter_map(BlockedGroup::of).collect();
    groups.sort_by(|one, other| (&one.since, &one.group).cmp(&(&other.since, &other.group)));
    Ok(groups)
}

/// Lists the groups with these names, all if there are none, and carries the decision out.
///
/// # Errors
/// If the notices cannot be read, or the backup cannot be written.
pub async fn unblock<Q: Queue, C: Clock, B: BackupWriter>(
    blocked: &Q,
    source: &Q,
    clock: &C,
    names: &[String],
    mut decision: Decision<'_, B>,
) -> Result<Unblocked, Failure> {
    let mut reader = Reader::new(blocked, clock).await?;
    let worked = async {
        let mut groups = read(&mut reader).await?;
        let is_missing = |name: &&String| !groups.iter().any(|group| group.group == **name);
        let not_blocked = names.iter().filter(is_missing).cloned().collect();
        groups.retain(|group| names.is_empty() || names.contains(&group.group));
        let mut outcomes = Vec::with_capacity(groups.len());
        for group in groups {
            let done = match &mut decision {
                Decision::Later => None,
                Decision::Retry => Some(retry(source, &group).await),
                Decision::TakeOut(backup) => Some(take_out(source, clock, &group, *backup).await?),
            };
            let unblocked = done == Some(Ok(()));
            let mut error = done.and_then(Result::err);
            if unblocked {
                let deleted = reader.delete(&group.notices.iter().collect::<Vec<_>>()).await;
                error = deleted.into_iter().find_map(Result::err).map(|why| told_again(&why));
            }
            outcomes.push(Outcome { group, unblocked, error });
        }
        Ok(Unblocked { groups: outcomes, not_blocked, coverage: Coverage::default() })
    };
    let worked: Result<Unblocked, Failure> = worked.await;
    let coverage = reader.finish().await;
    worked.map(|unblocked| Unblocked { coverage, ..unblocked })
}

async fn retry<Q: Queue>(source: &Q, group: &BlockedGroup) -> Result<(), String> {
    hide(source, group, VisibilitySeconds::ZERO).await.map_err(|error| not_hidden(&error))
}

/// The message's handle is checked first, and nobody else receives the message meanwhile. If the process dies, the message
/// comes back after a minute, and is called once more.
async fn take_out<Q: Queue, C: Clock>(
    source: &Q,
    clock: &C,
    group: &BlockedGroup,
    backup: &mut impl BackupWriter,
) -> Result<Result<(), String>, Failure> {
    let hidden_until: Timestamp = clock.now() + TAKING_OUT;
    if let Err(error) = hide(source, group, VisibilitySeconds::saturating(TAKING_OUT.as_secs())).await {
        return Ok(Err(not_hidden(&error)));
    }
    let records: Vec<_> = group.notices.last().cloned().map(DeadLetterRecord::new).into_iter().collect();
    backup.keep(&records).await?;
    let deleted = delete(source, clock, std::slice::from_ref(&group.receipt_handle)).await;
    Ok(match deleted.into_iter().next() {
        Some(Ok(())) if clock.now() < hidden_until => Ok(()),
        Some(Err(error)) => {
            let error = with_right(&error, "sqs:DeleteMessage", "kms:Decrypt");
            Err(format!("{error}: the message is in the backup and on its queue"))
        }
        _ => Err("SQS answered too late: the message is in the backup, and may be on its queue".to_owned()),
    })
}

async fn hide<Q: Queue>(source: &Q, group: &BlockedGroup, time: VisibilitySeconds) -> Result<(), EntryError> {
    let outcomes = source.change_visibility_batch(&[(group.receipt_handle.clone(), time)]).await;
    outcomes.into_iter().next().unwrap_or(Ok(()))
}

fn not_hidden(error: &EntryError) -> String {
    let error = with_right(error, "sqs:ChangeMessageVisibility", "kms:Decrypt");
    format!(
        "{error}; unless a right is missing, it has come back by itself: if it is blocked again, there is a new notice in a \
         few minutes"
    )
}

fn told_again(why: &NotDeleted) -> String {
    let why = match why {
        NotDeleted::Failed(error) => with_right(error, "sqs:DeleteMessage", "kms:Decrypt"),
        NotDeleted::VisibleToOthers => why.to_string(),
    };
    format!("its notice was not deleted: {why}. It is out of date, and SQS deletes it within 12 hours")
}

#[cfg(test)]
mod tests;
