//! Helpers shared by several test modules.

pub(crate) mod hmac;
pub(crate) mod loopback;

use redeliver_core::message::{Attributes, ReceivedMessage, Timestamp};

/// Returns a record that has only a message group.
pub(crate) fn record(group: Option<&str>) -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: String::new(),
        receipt_handle: String::new(),
        body: String::new(),
        attributes: Attributes::new(),
        sent_at: Timestamp::UNIX_EPOCH,
        first_received_at: None,
        receive_count: 1,
        message_group_id: group.map(str::to_owned),
        trace_header: None,
        sender_id: None,
        redriven_from: None,
        queue_arn: String::new(),
        omitted: Vec::new(),
    }
}
