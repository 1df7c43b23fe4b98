//! Targets: where valid messages go. Nothing in a message changes where.

mod async_invoke;
mod drain;
#[cfg(feature = "targets")]
mod headers;
#[cfg(feature = "targets")]
mod http;
#[cfg(feature = "targets")]
mod invoke;
mod lambda_client;
#[cfg(feature = "targets")]
mod own_function;
mod refused_payload;
#[cfg(feature = "targets")]
mod retry_after;
#[cfg(feature = "targets")]
mod target;
#[cfg(feature = "targets")]
mod url;

use std::time::Duration;

pub use async_invoke::LambdaInvoker;
#[cfg(feature = "targets")]
pub use headers::{Headers, HeadersError, SecretHeaders};
#[cfg(feature = "targets")]
pub use http::{HeaderSource, HttpTarget};
#[cfg(feature = "targets")]
pub use invoke::LambdaTarget;
#[cfg(feature = "targets")]
pub use own_function::{Answer, Command, Ended, Event, HandlerEvent, OwnFunction, Processes, Runtime};
#[cfg(feature = "targets")]
pub use target::{DEFAULT_TIMEOUT, Target};
#[cfg(feature = "targets")]
pub use url::{TargetAddress, TargetError, is_loopback};

/// Time for a connection (name, TCP and TLS together) if the whole call has as much.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Of a connection. Shorter than any usual load balancer's own (60 s): a request on one that was closed meanwhile,
/// while nobody looked at it, would spend an attempt.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
