//! The loop in virtual time, on an SQS in memory.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use redeliver_embedded::EmbeddedSqs;
use redeliver_loop::virtual_time::{self, COUNTS_LAG};

use super::plan::Plan;
use super::run::{self, World};
use super::{Report, Target};
use crate::Failure;
use crate::signals::interrupted;

pub(super) async fn run(plan: Plan, output: &mut dyn Write) -> Result<Report, Failure> {
    let clock = virtual_time::clock();
    let sqs = EmbeddedSqs::new(clock.clone(), plan.seed);
    if plan.paces() {
        sqs.set_counts_lag(COUNTS_LAG);
    }
    let hold = matches!(plan.target(), Target::Http(_)).then(|| clock.clone());
    let requests = || {
        sqs.requests()
            .iter()
            .map(|(action, count)| ((*action).to_owned(), *count))
            .collect::<BTreeMap<_, _>>()
    };
    let world = World {
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
    Ok(clock.run(run::run(plan, world, output, stop.requested())).await??)
}
