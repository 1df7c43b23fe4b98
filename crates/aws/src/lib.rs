//! AWS adapters for redeliver: queues, Lambda's runtime, targets, settings, telemetry.
//!
//! Each module implements a port of `redeliver-core` or supplies the core with input from outside the process. No other
//! crate reads the clock ([`SystemClock`]) or the environment ([`settings`]). A function's `main` calls [`start::run`]
//! with its settings and dependencies.
//!
//! Outside Lambda, a function fails with an error instead of waiting for invocations:
//!
//! ```
//! assert!(redeliver_aws::settings::check_started_by_lambda().is_err());
//! ```

#[cfg(feature = "archive")]
pub mod archive;
pub mod lambda;
#[cfg(feature = "archive")]
pub mod notifier;
pub mod otlp;
pub mod settings;
pub mod sqs;
pub mod start;
pub mod stderr;
#[cfg(feature = "async-invoke")]
pub mod targets;
pub mod telemetry;

mod clock;
mod environment;
mod failed_request;
mod http_client;
mod received;
#[cfg(feature = "targets")]
mod role_credentials;
mod stop;
#[cfg(test)]
mod tests;

pub use clock::SystemClock;
pub use failed_request::{NO_CONNECTION, NotReachedReason, not_reached_reason};
pub use http_client::http_client;
pub use stop::Stop;
