//! The targets for valid messages. A message cannot change its target.

mod async_invoke;
mod drain;
#[cfg(feature = "targets")]
mod endpoint;
#[cfg(feature = "targets")]
mod error_excerpt;
#[cfg(feature = "targets")]
mod http;
#[cfg(feature = "targets")]
mod invoke;
mod lambda_client;
#[cfg(feature = "targets")]
mod own_function;
#[cfg(feature = "targets")]
mod proxy;
mod refused_payload;
#[cfg(feature = "targets")]
mod retry_after;
#[cfg(feature = "targets")]
mod sigv4;
#[cfg(feature = "targets")]
mod standard_webhooks;
#[cfg(feature = "targets")]
mod target;
#[cfg(feature = "targets")]
mod url;

use std::time::Duration;

pub use async_invoke::LambdaInvoker;
#[cfg(feature = "targets")]
pub use endpoint::{Endpoint, EndpointSettings, SecretEndpoint, SecretError, UrlSetting};
#[cfg(feature = "targets")]
pub use error_excerpt::{ErrorExcerpt, ErrorExcerptError};
#[cfg(feature = "targets")]
pub use http::{EndpointSource, HttpTarget};
#[cfg(feature = "targets")]
pub use invoke::{FunctionModes, LambdaTarget};
#[cfg(feature = "targets")]
pub use own_function::{
    FunctionExit, FunctionInvocation, FunctionResponse, FunctionRuntime, HandlerEvent, OutputReader,
    OwnFunction, Processes, RuntimeCommand,
};
#[cfg(feature = "targets")]
pub use proxy::{ProxyError, TargetProxy};
#[cfg(feature = "targets")]
pub use sigv4::{SigV4Error, SigV4Setting, SigV4Signer, SignedService};
#[cfg(feature = "targets")]
pub use standard_webhooks::{SigningSecrets, SigningSecretsError};
#[cfg(feature = "targets")]
pub use target::{DEFAULT_TIMEOUT, Target};
#[cfg(feature = "targets")]
pub use url::{TargetAddress, TargetError, TargetUrl, is_loopback};

/// The timeout for connecting (DNS, TCP and TLS together), unless the call's timeout is shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The idle timeout of a connection. It is shorter than that of common load balancers (60 s), since a request on a
/// connection that the peer has closed would waste an attempt.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
