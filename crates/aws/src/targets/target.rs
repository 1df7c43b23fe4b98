//! The message-processor's target.

use std::sync::Arc;
use std::time::Duration;

use redeliver_core::handler::{Handler, HandlerError, Invocation, Message};

use redeliver_core::trace::CallSpan;

use super::{HttpTarget, LambdaTarget, OwnFunction};

/// The default for `TARGET_TIMEOUT_SECONDS`: 30 s for a whole call, including the connection.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The target of a message-processor, to which each valid message is passed.
#[derive(Debug)]
pub enum Target {
    Http(Box<HttpTarget>),
    Lambda(LambdaTarget),
    OwnFunction(Arc<OwnFunction>),
}

impl Handler for Target {
    fn function_version(&self) -> Option<&str> {
        match self {
            Self::Http(_) | Self::Lambda(_) => None,
            Self::OwnFunction(target) => target.function_version(),
        }
    }

    fn call_span(&self) -> CallSpan<'_> {
        match self {
            Self::Http(target) => target.call_span(),
            Self::Lambda(target) => target.call_span(),
            Self::OwnFunction(target) => target.call_span(),
        }
    }

    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        match self {
            Self::Http(target) => target.handle(message).await,
            Self::Lambda(target) => target.handle(message).await,
            Self::OwnFunction(target) => target.handle(message).await,
        }
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        match self {
            Self::Http(target) => target.invoke(invocation).await,
            Self::Lambda(target) => target.invoke(invocation).await,
            Self::OwnFunction(target) => target.invoke(invocation).await,
        }
    }
}
