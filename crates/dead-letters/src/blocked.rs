//! Lists and unblocks the blocked groups of an ordered queue (`on_give_up: block`).

use std::collections::BTreeMap;
use std::time::Duration;

use redeliver_core::blocked::BlockedNotice;
use redeliver_core::deliver::change_visibility;
use redeliver_core::deliver::deletion::delete_by_receipt_handle;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::ports::{Clock, EntryError, Fault, Queue};
use serde::Serialize;

use crate::groups::format_timestamp;
use crate::purge::BackupWriter;
use crate::reader::is_denied;
use crate::{
    Coverage, DeadLetterError, DeadLetterReader, DeadLetterRecord, DeletionError, ReaderError, explain_error,
};

/// A group whose first message was given up on, and remains hidden on the source queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockedGroup {
    /// The `MessageGroupId`.
    pub group: String,
    /// The timestamp of the message's first receive, when the group started to wait; RFC 3339.
    pub since: String,
    pub message_id: String,
    /// The code for the reason why the message was given up on.
    pub error_type: String,
    /// The reason as text.
    pub error_details: String,
    /// The number of retries; `None` if the target was never called.
    pub attempts: Option<u32>,
    /// The timestamp of its last notice, RFC 3339. About 12 hours later, at the SQS limit for hiding a message, the
    /// target is called with the message once more.
    pub noticed_at: String,
    /// The group's notices, oldest first.
    #[serde(skip)]
    notices: Vec<ReceivedMessage>,
    /// The message's handle from the newest notice: older handles are no longer valid.
    #[serde(skip)]
    receipt_handle: String,
}

impl BlockedGroup {
    /// Builds the blocked group from its newest notice, or returns `None` if no notice can be read.
    #[must_use]
    pub fn from_notices(mut notices: Vec<ReceivedMessage>) -> Option<Self> {
        notices.retain(|notice| BlockedNotice::from_record(notice).is_some());
        notices.sort_by_key(|notice| notice.sent_at);
        let last = notices.last()?;
        let BlockedNotice { receipt_handle, waiting_since, verdict } = BlockedNotice::from_record(last)?;
        let record = DeadLetterRecord::new(last.clone());
        let failure = verdict.case.map(|case| case.failure);
        let source_id = failure.as_ref().map(|failure| failure.delivery.source_message_id.clone());
        Some(Self {
            group: last.message_group_id.clone().unwrap_or_default(),
            since: format_timestamp(waiting_since),
            message_id: record
                .metadata
                .map_or_else(|| source_id.unwrap_or_default(), |metadata| metadata.message_id_text),
            error_type: record.error_type,
            error_details: record.error_details,
            attempts: failure.and_then(|failure| failure.attempts),
            noticed_at: format_timestamp(last.sent_at),
            receipt_handle,
            notices,
        })
    }
}

/// The decision on blocked groups.
pub enum UnblockDecision<'a, B> {
    /// Only lists the groups.
    ListOnly,
    /// Retries the first message immediately; it keeps its position in the group.
    Retry,
    /// Deletes the message after it is backed up; its group continues without it.
    TakeOut(&'a mut B),
}

/// A group, and the effect of the decision on it. With [`UnblockDecision::ListOnly`] the group is not unblocked, and no
/// error is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupOutcome {
    #[serde(flatten)]
    pub group: BlockedGroup,
    /// True if the decision was carried out.
    pub unblocked: bool,
    /// The reason why the group was not unblocked, or why its notice was not deleted.
    pub error: Option<String>,
}

/// The blocked groups of a queue, and the requested groups that have no notice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnblockReport {
    /// The groups; if an error ended the operation, only those processed before it.
    pub groups: Vec<GroupOutcome>,
    pub not_found: Vec<String>,
    /// The part of the notice queue that was read. More notices may exist that are not visible yet or that another
    /// program has received.
    pub coverage: Coverage,
    /// The error that ended the operation.
    pub failed: Option<String>,
}

/// The visibility timeout of a message while it is being taken out.
const TAKE_OUT_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for visibility changes, which are retried if the error is retryable.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The blocked groups, according to their notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedGroups {
    /// The groups, longest-waiting first.
    pub groups: Vec<BlockedGroup>,
    /// The part of the notice queue that was read.
    pub coverage: Coverage,
}

/// Reads the blocked groups.
///
/// # Errors
/// If the queue cannot be read.
pub async fn list_blocked_groups<Q: Queue, C: Clock>(
    blocked: &Q,
    clock: &C,
) -> Result<BlockedGroups, ReaderError> {
    let mut reader = DeadLetterReader::new(blocked, clock).await?;
    let groups = read_groups(&mut reader).await;
    let coverage = reader.finish().await;
    Ok(BlockedGroups { groups: groups?, coverage })
}

async fn read_groups<Q: Queue, C: Clock>(
    reader: &mut DeadLetterReader<'_, Q, C>,
) -> Result<Vec<BlockedGroup>, ReaderError> {
    let mut notices = BTreeMap::<Option<String>, Vec<ReceivedMessage>>::new();
    while let Some(messages) = reader.next_messages().await? {
        for message in messages {
            notices.entry(message.message_group_id.clone()).or_default().push(message);
        }
    }
    let mut groups: Vec<_> = notices.into_values().filter_map(BlockedGroup::from_notices).collect();
    groups.sort_by(|one, other| (&one.since, &one.group).cmp(&(&other.since, &other.group)));
    Ok(groups)
}

/// Applies the decision to the groups with these names, or to all groups if `names` is empty.
///
/// # Errors
/// If the notices cannot be read, or the first message cannot be backed up. A later error is reported in
/// [`UnblockReport::failed`], along with the groups completed before it.
pub async fn unblock_groups<Q: Queue, C: Clock, B: BackupWriter>(
    blocked: &Q,
    source: &Q,
    clock: &C,
    names: &[String],
    mut decision: UnblockDecision<'_, B>,
) -> Result<UnblockReport, DeadLetterError> {
    let mut reader = DeadLetterReader::new(blocked, clock).await?;
    let mut unblocked = UnblockReport::default();
    let worked = async {
        let mut groups = read_groups(&mut reader).await?;
        let is_missing = |name: &&String| !groups.iter().any(|group| group.group == **name);
        unblocked.not_found = names.iter().filter(is_missing).cloned().collect();
        groups.retain(|group| names.is_empty() || names.contains(&group.group));
        for group in groups {
            let done = match &mut decision {
                UnblockDecision::ListOnly => None,
                UnblockDecision::Retry => Some(
                    reader.hold_messages_during(hide_message(source, clock, &group, Duration::ZERO)).await,
                ),
                UnblockDecision::TakeOut(backup) => {
                    Some(reader.hold_messages_during(take_out(source, clock, &group, *backup)).await?)
                }
            };
            let is_done = done == Some(Ok(()));
            let mut error = done.and_then(Result::err);
            // The notice is kept after a failure: unless the cause is an outdated handle, deleting the notice would
            // leave the group blocked without a trace.
            if is_done {
                let deleted = reader.delete_messages(&group.notices.iter().collect::<Vec<_>>()).await;
                error = error
                    .or(deleted.into_iter().find_map(Result::err).map(|why| describe_notice_error(&why)));
            }
            unblocked.groups.push(GroupOutcome { group, unblocked: is_done, error });
        }
        Ok(())
    };
    let worked: Result<(), DeadLetterError> = worked.await;
    unblocked.coverage = reader.finish().await;
    match worked {
        // Work completed before the error must still be reported.
        Err(error) if !unblocked.groups.is_empty() => {
            Ok(UnblockReport { failed: Some(error.to_string()), ..unblocked })
        }
        worked => worked.map(|()| unblocked),
    }
}

/// Backs up and deletes the group's message. Hiding it first validates its handle and keeps other consumers from
/// receiving it. If the process dies, the message becomes visible again after a minute, and the target is called with
/// it once more.
async fn take_out<Q: Queue, C: Clock>(
    source: &Q,
    clock: &C,
    group: &BlockedGroup,
    backup: &mut impl BackupWriter,
) -> Result<Result<(), String>, DeadLetterError> {
    let hidden_until = clock.now() + TAKE_OUT_TIMEOUT;
    if let Err(why) = hide_message(source, clock, group, TAKE_OUT_TIMEOUT).await {
        return Ok(Err(why));
    }
    let records: Vec<_> = group.notices.last().cloned().map(DeadLetterRecord::new).into_iter().collect();
    backup.store_records(&records).await?;
    let deleted = delete_by_receipt_handle(source, clock, std::slice::from_ref(&group.receipt_handle)).await;
    let why = match deleted.into_iter().next() {
        Some(Ok(())) if clock.now() < hidden_until => return Ok(Ok(())),
        Some(Err(error)) => explain_error(&error, "sqs:DeleteMessage", "kms:Decrypt"),
        _ => "SQS responded too late".to_owned(),
    };
    Ok(Err(format!(
        "{why}: the message is in the backup, and comes back within a minute unless SQS has deleted it; send it from the \
         backup only if its group continues without it"
    )))
}

async fn hide_message<Q: Queue, C: Clock>(
    source: &Q,
    clock: &C,
    group: &BlockedGroup,
    time: Duration,
) -> Result<(), String> {
    let receives = vec![(group.receipt_handle.clone(), VisibilitySeconds::saturating(time.as_secs()))];
    let changed = change_visibility(source, clock, clock.now() + CHANGE_TIMEOUT, receives).await;
    let no_answer = || Err(EntryError::new(Fault::NoAnswer, "NoAnswer"));
    changed.into_iter().next().unwrap_or_else(no_answer).map_err(|error| {
        let why = explain_error(&error, "sqs:ChangeMessageVisibility", "kms:Decrypt");
        match error.fault {
            Fault::Sender if is_denied(&error) => why,
            Fault::Sender => PROBABLY_VISIBLE_AGAIN.to_owned(),
            _ => format!("{why}; run it again"),
        }
    })
}

const PROBABLY_VISIBLE_AGAIN: &str = "its message has probably become visible again: then this notice is out of date, and SQS \
                         deletes it within 12 hours. If the group is blocked again, a new notice follows a minute later";

fn describe_notice_error(why: &DeletionError) -> String {
    let why = match why {
        DeletionError::Failed(error) => explain_error(error, "sqs:DeleteMessage", "kms:Decrypt"),
        DeletionError::VisibleToOthers => why.to_string(),
    };
    format!("its notice was not deleted: {why}. It is out of date, and SQS deletes it within 12 hours")
}

#[cfg(test)]
mod tests;
