//! Receipts: a received record is done only when its processing or its send is confirmed.

use super::ReceivedMessage;

/// The receipt for a record that is not done yet. It accompanies the message to the queue or the target. If it is
/// dropped, deliberately or by mistake, the record is received again after its visibility timeout.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "an unconfirmed record is received again"]
pub struct Receipt {
    sqs_message_id: String,
    handle: String,
}

/// A record that is done: the target has processed its message, or SQS has confirmed the message in another queue. It
/// can only be created from a receipt, and only once:
///
/// ```compile_fail,E0382
/// # fn twice(receipt: redeliver_core::message::Receipt) {
/// let first = receipt.confirm();
/// let second = receipt.confirm();
/// # }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "only records returned as confirmed are deleted"]
pub struct Confirmed(Receipt);

impl ReceivedMessage {
    /// Returns the receipt of this record, without the message.
    pub fn into_receipt(self) -> Receipt {
        Receipt { sqs_message_id: self.sqs_message_id, handle: self.receipt_handle }
    }

    pub(crate) fn receipt(&self) -> Receipt {
        Receipt { sqs_message_id: self.sqs_message_id.clone(), handle: self.receipt_handle.clone() }
    }
}

impl Receipt {
    pub(crate) fn new(sqs_message_id: String, handle: String) -> Self {
        Self { sqs_message_id, handle }
    }

    /// Returns the record's SQS id.
    #[must_use]
    pub fn sqs_message_id(&self) -> &str {
        &self.sqs_message_id
    }

    /// Marks the record as done, so that it may be deleted.
    pub fn confirm(self) -> Confirmed {
        Confirmed(self)
    }

    pub(crate) fn handle(&self) -> &str {
        &self.handle
    }

    pub(crate) fn into_sqs_message_id(self) -> String {
        self.sqs_message_id
    }
}

impl Confirmed {
    /// Returns the record's SQS id.
    #[must_use]
    pub fn sqs_message_id(&self) -> &str {
        self.0.sqs_message_id()
    }

    pub(crate) fn into_receipt(self) -> Receipt {
        self.0
    }
}
