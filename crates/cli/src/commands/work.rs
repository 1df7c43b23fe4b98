//! `redeliver work`: the functions as a long-running process, by [`redeliver_worker`].

mod arguments;

use redeliver_operator::ExitCode;
use redeliver_worker::{Ending, run};

pub use arguments::Arguments;

/// Runs the functions until a signal comes.
pub fn main(arguments: Arguments) -> ExitCode {
    match run(&arguments.into()) {
        Ending::Finished => ExitCode::Done,
        Ending::Interrupted => ExitCode::Interrupted,
        Ending::Cancelled => ExitCode::NotAllDone,
        Ending::NotStarted => ExitCode::Failed,
    }
}
