//! `redeliver work`: the functions as a long-running process, by [`redeliver_worker`].

mod arguments;

use std::process::ExitCode;

use redeliver_worker::{Ending, run};

pub use arguments::Arguments;

/// Runs the functions until a signal comes.
pub fn main(arguments: Arguments) -> ExitCode {
    match run(&arguments.into()) {
        Ending::Finished => ExitCode::SUCCESS,
        Ending::Cancelled => ExitCode::from(1),
        Ending::NotStarted => ExitCode::from(2),
    }
}
