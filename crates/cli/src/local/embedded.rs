//! The loop in virtual time, on an SQS in memory.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use redeliver_core::message::Timestamp;
use redeliver_embedded::{EmbeddedSqs, VirtualClock};

use super::interrupt::interrupted;
use super::run::{self, Plan, World};
use super::{Report, Target};

/// 2026-01-01T00:00:00Z: the same for every run, so that the same seed gives the same bytes.
pub(crate) const START_SECONDS: i64 = 1_767_225_600;

/// As old as SQS's own counts may be, so that what is paced here is paced so there.
pub(crate) const COUNTS_LAG: Duration = Duration::from_secs(60);

pub(super) async fn run(plan: Plan, output: &mut dyn Write) -> Result<Report, Box<dyn std::error::Error>> {
    let clock = VirtualClock::new(Timestamp::from_timestamp(START_SECONDS, 0).unwrap_or_default());
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
    Ok(clock.run(run::run(plan, world, output, interrupted()?)).await??)
}
