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

mod processor;

pub use processor::MessageProcessor;
pub use redeliver_core::handler::{ErrorType, FailureKind, Handler, HandlerError, Message};
