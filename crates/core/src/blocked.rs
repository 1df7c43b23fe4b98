//! Blocked groups of an ordered queue. A message that is given up remains hidden on the source queue, and a notice with
//! its verdict and receipt handle informs operators, who can use the handle to retry the message immediately or to
//! remove it.

use serde::Deserialize;

use crate::arrival::Arrival;
use crate::decide::QueueTimes;
use crate::deliver::{NOTICE_DELAY, Outgoing, time_until};
use crate::events::Event;
use crate::failure::{FAILURE, Verdict};
use crate::limits::{DelaySeconds, VisibilitySeconds};
use crate::message::attempt_logs::AttemptLogs;
use crate::message::metadata::{format_rfc3339, parse_rfc3339};
use crate::message::{Attribute, OutgoingMessage, ReceiveTimes, ReceivedMessage, Timestamp};

/// The time for which a blocked message is hidden: SQS's maximum ("ChangeMessageVisibility", Amazon SQS API Reference),
/// or until the end of its retention. `None` at that end: the message is given up, and its group continues.
#[must_use]
pub fn hiding_time(
    queue_times: QueueTimes,
    times: ReceiveTimes,
    now: Timestamp,
) -> Option<VisibilitySeconds> {
    let left = time_until(now, queue_times.retained_until(times.sent_at)).as_secs();
    let hidden = VisibilitySeconds::saturating(left).min(queue_times.hidden_max());
    (hidden > VisibilitySeconds::ZERO).then_some(hidden)
}

/// The notice for a message with this verdict, delayed by 60 s.
///
/// # Errors
/// The verdict, if SQS would refuse the notice because the message is too large for the handle to fit.
pub fn block_notice(verdict: Outgoing, times: ReceiveTimes) -> Result<Outgoing, Box<Outgoing>> {
    match attach_handle(&verdict, times.first_received_at) {
        Some(message) => {
            let confirmed = verdict.confirmed.map(|event| match event {
                Event::GivenUp { message_id, sqs_message_id, error_type, request_id } => {
                    Event::Blocked { message_id, sqs_message_id, error_type, request_id }
                }
                event => event,
            });
            Ok(Outgoing { message: Ok(message), confirmed, ..verdict })
        }
        None => Err(Box::new(verdict)),
    }
}

fn attach_handle(verdict: &Outgoing, since: Timestamp) -> Option<OutgoingMessage> {
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
    /// The first receive of the message, since which its group has been waiting.
    pub waiting_since: Timestamp,
    /// The reason why the message was given up.
    pub verdict: Verdict,
}

#[derive(Deserialize)]
struct NoticeHandle {
    receipt_handle: String,
    waiting_since: String,
}

impl BlockedNotice {
    /// Parses a notice; `None` if the message is not one.
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
