//! Targets: where valid messages go. Nothing in a message changes where.

mod async_invoke;
mod drain;
mod headers;
mod http;
mod invoke;
mod lambda_client;
mod refused_payload;
mod retry_after;
mod url;

use std::time::Duration;

use redeliver_core::handler::{Handler, HandlerError, Message};
use redeliver_core::message::Timestamp;

pub use async_invoke::LambdaInvoker;
pub use headers::{Headers, HeadersError, SecretHeaders};
pub use http::{HeaderSource, HttpTarget};
pub use invoke::LambdaTarget;
pub use url::{TargetAddress, TargetError, is_loopback};

/// Time for a connection (name, TCP and TLS together) if the whole call has as much.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Of a connection. Shorter than any usual load balancer's own (60 s): a request on one that was closed meanwhile,
/// while nobody looked at it, would spend an attempt.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
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
