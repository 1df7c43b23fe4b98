//! What redeliver needs of AWS and of the process it runs in: queues, Lambda's runtime, targets, settings, telemetry.
//!
//! Everything here implements a port of `redeliver-core` or reads the outside world for it. The doors to the clock
//! ([`SystemClock`]) and to the environment ([`settings`]) are here and nowhere else. A function's `main` is
//! [`start::run`] around: settings → dependencies.
//!
//! A function that somebody starts by hand says so, instead of waiting for a Lambda that is not there:
//!
//! ```
//! assert!(redeliver_aws::settings::started_by_lambda().is_err());
//! ```

pub mod lambda;
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
mod stop;
#[cfg(test)]
mod tests;

pub use clock::SystemClock;
pub use failed_request::{NO_CONNECTION, Unreached, unreached};
pub use http_client::http_client;
pub use stop::Stop;
