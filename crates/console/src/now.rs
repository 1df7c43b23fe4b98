//! What is where and what flows, asked for while somebody looks: SQS's counts every ten seconds, who reads the queues,
//! whether the target is down and how old messages are every minute.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::TimeDelta;
use redeliver_aws::SystemClock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock as _, QueueDepth as _};

use super::desk::Desk;
use super::latest::Latest;
use redeliver_operator::Failure;
use redeliver_operator::lock::lock;
use redeliver_operator::queues::{Connection, Counts, OpenQueue};
use redeliver_operator::status::{Flow, Metrics, Status, look_at};

/// Between two questions for counts, which SQS has anew about every minute.
pub(super) const COUNTS_EVERY: Duration = Duration::from_secs(10);
/// Questions for counts between two questions for the rest.
const COUNTS_OF_A_LOOK: u32 = 6;
/// Nobody looks any more if nobody has asked for so long.
const FORGOTTEN: TimeDelta = TimeDelta::seconds(30);

/// What was seen last, and when somebody has asked for it last.
#[derive(Debug, Default)]
pub(super) struct Now {
    pub(super) latest: Arc<Latest<Seen>>,
    asked_at: Mutex<Timestamp>,
}

/// What was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at: Timestamp,
    pub(super) status: Status,
    /// One for each queue that CloudWatch knows.
    pub(super) flows: Vec<Flow>,
    /// The deployment's alarms, each with its state.
    pub(super) alarms: Vec<(String, String)>,
}

impl Now {
    /// Somebody looks: from now on it is asked for, until nobody does.
    pub(super) fn look(self: &Arc<Self>, desk: &Desk) {
        *self.asked_at() = SystemClock.now();
        let (now, queues, connection) = (Arc::clone(self), desk.queues.clone(), desk.connection.clone());
        self.latest.begin(move || async move {
            while !now.is_forgotten() {
                let round = async {
                    let open = queues.open(&connection).await?;
                    let at = SystemClock.now();
                    let mut status = look_at(&connection, &open, queues.name(), at).await?;
                    let (flows, alarms) = from_cloudwatch(&connection, &mut status, at).await;
                    now.latest.tell(Ok(Seen { at, status, flows, alarms }));
                    now.count(&open).await
                };
                if let Err(error) = round.await {
                    now.latest.tell(Err(error));
                    SystemClock.sleep(COUNTS_EVERY).await;
                }
            }
        });
    }

    /// Counts, until it is time to look at the rest again.
    async fn count(&self, open: &[OpenQueue]) -> Result<(), Failure> {
        for _ in 1..COUNTS_OF_A_LOOK {
            SystemClock.sleep(COUNTS_EVERY).await;
            if self.is_forgotten() {
                return Ok(());
            }
            let Some(mut seen) = self.latest.seen().map(Arc::unwrap_or_clone) else { return Ok(()) };
            for (queue, OpenQueue { known, .. }) in seen.status.queues.iter_mut().zip(open) {
                let depth = known.queue.depth().await?;
                queue.counts = Counts {
                    visible: Some(depth.visible),
                    in_flight: Some(depth.in_flight),
                    delayed: Some(depth.delayed),
                    ..queue.counts
                };
            }
            seen.at = SystemClock.now();
            self.latest.tell(Ok(seen));
        }
        SystemClock.sleep(COUNTS_EVERY).await;
        Ok(())
    }

    fn is_forgotten(&self) -> bool {
        SystemClock.now() - *self.asked_at() > FORGOTTEN
    }

    fn asked_at(&self) -> MutexGuard<'_, Timestamp> {
        lock(&self.asked_at)
    }
}

/// What CloudWatch knows; why it does not say it, if it does not, is among the problems.
async fn from_cloudwatch(
    connection: &Connection,
    status: &mut Status,
    at: Timestamp,
) -> (Vec<Flow>, Vec<(String, String)>) {
    let names: Vec<_> = status.queues.iter().map(|queue| queue.name.as_str()).collect();
    let asked = async {
        let Some(first) = status.queues.first() else { return Ok(Default::default()) };
        let metrics = Metrics::near(connection, &first.arn).await?;
        // The construct's alarms are called so, and its queues.
        let prefix = names.iter().find_map(|name| name.strip_suffix("final-dlq"));
        let alarms = match prefix {
            Some(prefix) => metrics.alarms(prefix).await?,
            None => Vec::new(),
        };
        Ok::<_, Failure>((metrics.flows(&names, at).await?, alarms))
    };
    let asked = asked.await;
    asked.unwrap_or_else(|error| {
        status.problems.push(error.to_string());
        Default::default()
    })
}
