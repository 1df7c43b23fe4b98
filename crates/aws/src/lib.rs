//! AWS adapters for redeliver: queues, Lambda's runtime, targets, settings, telemetry.
//!
//! Every module implements a port of `redeliver-core` or supplies its input from outside. Only this crate reads the
//! clock ([`SystemClock`]) and the environment ([`settings`]). A function's `main` calls [`start::run`] with its
//! settings and dependencies.
//!
//! Outside Lambda, a function reports an error instead of waiting:
//!
//! ```
//! assert!(redeliver_aws::settings::started_by_lambda().is_err());
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
pub use failed_request::{NO_CONNECTION, Unreached, unreached_reason};
pub use http_client::http_client;
pub use stop::Stop;
