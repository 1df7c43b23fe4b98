//! Targets: where valid messages go. Nothing in a message changes where.

mod async_invoke;
mod headers;
mod http;
mod invoke;
mod refused_payload;
mod retry_after;
mod url;

use std::time::Duration;

use redeliver_core::handler::{Handler, HandlerError, Message};

pub use async_invoke::LambdaInvoker;
pub use headers::{Headers, HeadersError, secret_headers};
pub use http::HttpTarget;
pub use invoke::LambdaTarget;
pub use url::{TargetAddress, TargetError, is_loopback};

/// Bytes of an answer that are read at most.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Time for a connection, where the whole call has as much: name, TCP and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// `TARGET_TIMEOUT_SECONDS` where it is not set.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The message-processor's target.
#[derive(Debug)]
pub enum Target {
    /// An HTTP endpoint.
    Http(HttpTarget),
    /// A Lambda function.
    Lambda(LambdaTarget),
}

impl Handler for Target {
    async fn handle(&self, message: &Message) -> Result<(), HandlerError> {
        match self {
            Self::Http(target) => target.handle(message).await,
            Self::Lambda(target) => target.handle(message).await,
        }
    }
}
