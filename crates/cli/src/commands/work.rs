//! `redeliver work`: runs the functions as a long-running process, using [`redeliver_worker`].

mod arguments;

use redeliver_operator::ExitCode;
use redeliver_worker::{WorkerEnding, run};

pub use arguments::Arguments;

/// Runs the functions until a signal arrives.
pub fn main(arguments: Arguments) -> ExitCode {
    match run(&arguments.into()) {
        WorkerEnding::Finished => ExitCode::Done,
        WorkerEnding::Interrupted => ExitCode::Interrupted,
        WorkerEnding::Cancelled => ExitCode::PartlyDone,
        WorkerEnding::NotStarted => ExitCode::Failed,
    }
}
