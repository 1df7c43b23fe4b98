//! Blocked groups of an ordered queue. A message that redeliver gives up on remains hidden on the source queue. A
//! notice with its verdict and receipt handle informs operators, who can use the handle to retry the message
//! immediately or to remove it.

use serde::Deserialize;

use crate::arrival::Arrival;
use crate::decide::QueueTimes;
use crate::deliver::{NOTICE_DELAY, PendingSend, time_until};
use crate::events::Event;
use crate::failure::{FAILURE, Verdict};
use crate::limits::{DelaySeconds, VisibilitySeconds};
use crate::message::attempt_logs::AttemptLogs;
use crate::message::metadata::{format_rfc3339, parse_rfc3339};
use crate::message::{Attribute, OutgoingMessage, ReceiveTimes, ReceivedMessage, Timestamp};

/// Returns how long to hide a blocked message: the longest time that SQS still allows after this receive
/// ("ChangeMessageVisibility", Amazon SQS API Reference), or less if the message's retention ends sooner. `None` if the
/// retention is about to end: the message must no longer be hidden, so redeliver gives up on it, and its group
/// continues.
#[must_use]
pub fn hiding_time(
    queue_times: QueueTimes,
    times: ReceiveTimes,
    now: Timestamp,
) -> Option<VisibilitySeconds> {
    let left = time_until(now, queue_times.latest_retry_time(times.sent_at)).as_secs();
    let visibility = VisibilitySeconds::saturating(left).min(queue_times.hidden_time_max());
    (visibility > VisibilitySeconds::ZERO).then_some(visibility)
}

/// Creates the notice, delayed by 60 s, for a message with this verdict.
///
/// # Errors
/// Returns the verdict if the message is so large that SQS would refuse a notice with the handle.
pub fn create_blocked_notice(
    verdict: PendingSend,
    times: ReceiveTimes,
) -> Result<PendingSend, Box<PendingSend>> {
    match attach_handle(&verdict, times.first_received_at) {
        Some(message) => {
            let confirmed = verdict.confirmed.map(|event| match event {
                Event::GivenUp { message_id, sqs_message_id, error_type, request_id } => {
                    Event::Blocked { message_id, sqs_message_id, error_type, request_id }
                }
                event => event,
            });
            Ok(PendingSend { message: Ok(message), confirmed, ..verdict })
        }
        None => Err(Box::new(verdict)),
    }
}

fn attach_handle(verdict: &PendingSend, since: Timestamp) -> Option<OutgoingMessage> {
    let content = verdict.message.as_ref().ok()?.content();
    let members = content.attributes.get(FAILURE)?.text()?.strip_prefix('{')?;
    let handle = serde_json::to_string(verdict.receipt.handle()).ok()?;
    let since = format_rfc3339(since);
    let document = format!(r#"{{"receipt_handle":{handle},"waiting_since":"{since}",{members}"#);
    let message = |document: &str| {
        let mut content = content.clone();
        content.attributes.insert(FAILURE.to_owned(), Attribute::string(document));
        content.delay = DelaySeconds::saturating(NOTICE_DELAY.as_secs());
        OutgoingMessage::new(content).ok()
    };
    message(&document).or_else(|| message(&AttemptLogs::remove_from(&document)?))
}

/// A parsed notice.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedNotice {
    /// The receipt handle of the message on its queue.
    pub receipt_handle: String,
    /// The time of the message's first receive. Its group has been waiting since then.
    pub waiting_since: Timestamp,
    /// The reason why redeliver gave up on the message.
    pub verdict: Verdict,
}

#[derive(Deserialize)]
struct NoticeHandle {
    receipt_handle: String,
    waiting_since: String,
}

impl BlockedNotice {
    /// Parses a notice; `None` if the message is not a notice.
    #[must_use]
    pub fn from_record(record: &ReceivedMessage) -> Option<Self> {
        let document = record.attributes.get(FAILURE)?.text()?;
        let NoticeHandle { receipt_handle, waiting_since } = serde_json::from_str(document).ok()?;
        let waiting_since = parse_rfc3339(&waiting_since)?;
        let verdict = Arrival::from_record(record.clone(), record.sent_at).take_verdict().ok()?;
        Some(Self { receipt_handle, waiting_since, verdict })
    }
}

#[cfg(test)]
mod tests;
