//! The message-processor's target, whichever it is.

use std::time::Duration;

use redeliver_core::handler::{Handler, HandlerError, Message};
use redeliver_core::message::Timestamp;

use super::{HttpTarget, LambdaTarget};

/// `TARGET_TIMEOUT_SECONDS` if it is not set.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub enum Target {
    Http(HttpTarget),
    Lambda(LambdaTarget),
}

impl Handler for Target {
    async fn handle(&self, message: &Message) -> Result<(), HandlerError> {
        self.handle_until(message, Timestamp::MAX_UTC).await
    }

    async fn handle_until(&self, message: &Message, end: Timestamp) -> Result<(), HandlerError> {
        match self {
            Self::Http(target) => target.handle_until(message, end).await,
            Self::Lambda(target) => target.handle_until(message, end).await,
        }
    }
}
