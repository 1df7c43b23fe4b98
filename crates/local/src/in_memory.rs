//! Runs the loop in virtual time, on an in-memory SQS.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use indicatif::ProgressBar;
use redeliver_embedded::EmbeddedSqs;
use redeliver_sim::Topology;
use redeliver_sim::virtual_time;

use crate::LocalSetup;
use crate::report::RunReport;
use crate::run::{self, Backend};
use crate::target::LocalTarget;
use redeliver_operator::CommandFailure;
use redeliver_operator::terminal::signals::stop_on_signal;

/// Runs the loop in virtual time, which is paused during calls to a real target.
pub(crate) async fn run_in_memory(
    setup: LocalSetup,
    bar: &ProgressBar,
    output: &mut dyn Write,
) -> Result<RunReport, CommandFailure> {
    let clock = virtual_time::clock_at_start();
    let sqs = EmbeddedSqs::new(clock.clone(), setup.seed);
    let hold = (!matches!(setup.target, LocalTarget::BuiltIn(_))).then(|| clock.clone());
    let requests = || {
        sqs.request_counts()
            .iter()
            .map(|(action, count)| ((*action).to_owned(), *count))
            .collect::<BTreeMap<_, _>>()
    };
    let backend = Backend {
        for_functions: Topology::for_functions,
        service: &sqs,
        clock: &clock,
        is_virtual: true,
        hold,
        prefix: "local".to_owned(),
        wait: Duration::from_secs(20),
        visible: &|arn| sqs.visible_count(arn),
        requests: &requests,
    };
    let stop = stop_on_signal(match setup.target {
        LocalTarget::OwnFunction(_) => "interrupted: ending the function; Ctrl-C again does not wait",
        _ => "interrupted: waiting for the calls that are under way; Ctrl-C again does not wait",
    })?;
    clock.run(run::run_loop(setup, backend, bar, output, &stop)).await?
}
