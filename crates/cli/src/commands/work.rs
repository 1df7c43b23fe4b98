//! `redeliver work`: runs the functions as a long-running process, using [`redeliver_worker`].

mod arguments;

use redeliver_operator::ExitCode;
use redeliver_worker::{WorkerOutcome, run};

pub use arguments::Arguments;

/// Runs the functions until a signal arrives.
pub fn main(arguments: Arguments) -> ExitCode {
    match run(&arguments.into()) {
        WorkerOutcome::Finished => ExitCode::Done,
        WorkerOutcome::Interrupted => ExitCode::Interrupted,
        WorkerOutcome::Cancelled => ExitCode::PartlyDone,
        WorkerOutcome::NotStarted => ExitCode::Failed,
    }
}
