//! The loop in virtual time, on an SQS in memory.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use redeliver_embedded::EmbeddedSqs;
use redeliver_sim::Topology;
use redeliver_sim::virtual_time;

use super::report::RunReport;
use super::run::{self, Backend};
use super::setup::Setup;
use super::target::Target;
use redeliver_operator::Failure;
use redeliver_operator::terminal::signals::interrupted;

pub(super) async fn run(setup: Setup, output: &mut dyn Write) -> Result<RunReport, Failure> {
    let clock = virtual_time::clock();
    let sqs = EmbeddedSqs::new(clock.clone(), setup.seed);
    let hold = (!matches!(setup.target, Target::BuiltIn(_))).then(|| clock.clone());
    let requests = || {
        sqs.requests()
            .iter()
            .map(|(action, count)| ((*action).to_owned(), *count))
            .collect::<BTreeMap<_, _>>()
    };
    let backend = Backend {
        of_functions: Topology::of_functions,
        service: &sqs,
        clock: &clock,
        is_virtual: true,
        hold,
        prefix: "local".to_owned(),
        wait: Duration::from_secs(20),
        visible: &|arn| sqs.visible(arn),
        requests: &requests,
    };
    let stop =
        interrupted("interrupted: waiting for the calls that are under way; Ctrl-C again does not wait")?;
    clock.run(run::run(setup, backend, output, stop.requested())).await?
}
