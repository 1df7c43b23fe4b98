//! The program that Lambda runs. One for all four functions: they share nearly all of it, so one is built, uploaded and
//! checked instead of four. Which function it is, its `Handler` in Lambda says.

use std::fmt::Display;
use std::process::ExitCode;

use redeliver_async_retry_handler as async_retry_handler;
use redeliver_aws::settings::handler;
use redeliver_failed_message_processor as failed_message_processor;
use redeliver_final_dlq_annotator as final_dlq_annotator;
use redeliver_message_processor as message_processor;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match handler().as_deref() {
        Ok(message_processor::NAME) => message_processor::run_with_target().await,
        Ok(failed_message_processor::NAME) => failed_message_processor::run().await,
        Ok(final_dlq_annotator::NAME) => final_dlq_annotator::run().await,
        Ok(async_retry_handler::NAME) => async_retry_handler::run().await,
        Ok(other) => refused(format_args!(
            "the function's Handler (_HANDLER) is {other:?}; it must be {}, {}, {} or {}",
            message_processor::NAME,
            failed_message_processor::NAME,
            final_dlq_annotator::NAME,
            async_retry_handler::NAME
        )),
        Err(error) => refused(error),
    }
}

fn refused(error: impl Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
