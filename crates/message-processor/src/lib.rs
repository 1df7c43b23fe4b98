//! The message processor as a library: write a [`Handler`] and hand it to [`run`], and failed messages are retried by the
//! policy of the failed-message-processor and explained in the final DLQ.
//!
//! ```no_run
//! use redeliver_message_processor::{Handler, HandlerError, Message, run};
//!
//! struct Charge;
//!
//! impl Handler for Charge {
//!     async fn handle(&self, message: &Message) -> Result<(), HandlerError> {
//!         println!("charging for {}", message.message_id);
//!         Ok(())
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> std::process::ExitCode {
//!     run(Charge).await
//! }
//! ```

#![warn(missing_docs)] // a library for those who write a handler

mod on_aws;
mod processor;

use std::process::ExitCode;

use redeliver_aws::settings::MessageProcessorSettings;
use redeliver_aws::start::{self, SdkConfig, StartError};
use redeliver_aws::telemetry::JsonLines;

pub use processor::{MessageProcessor, Strategy};
pub use redeliver_core::handler::{ErrorType, FailureKind, Handler, HandlerError, Message};

/// Its name in logs and metrics, where neither Lambda nor anybody else has given it another.
pub const NAME: &str = "message-processor";

/// Runs a message processor with this handler, in Lambda, until the process is stopped.
///
/// The settings are those of the message-processor without its `TARGET`. If they are not right it says so, all in one
/// message, and does not run.
pub async fn run(handler: impl Handler) -> ExitCode {
    run_prepared(async {
        let settings = MessageProcessorSettings::from_env()?;
        Ok((settings, start::sdk_config().await, handler))
    })
    .await
}

/// [`run`] for a handler that needs the SDK's configuration, or that can fail to be made.
pub async fn run_prepared<H: Handler>(
    prepare: impl Future<Output = Result<(MessageProcessorSettings, SdkConfig, H), StartError>>,
) -> ExitCode {
    start::run(NAME, async {
        let (settings, config, handler) = prepare.await?;
        Ok(MessageProcessor::on_aws(handler, settings, &config, JsonLines::stdout(NAME)))
    })
    .await
}
