//! Queries the status while a page is open: SQS's counts every ten seconds; readers, the target, ages and containers'
//! metrics every minute; the last day every five minutes.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::join;
use redeliver_aws::SystemClock;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock as _, QueueDepth as _};
use redeliver_operator::CommandFailure;
use redeliver_operator::queues::{AwsConnection, OpenQueue, QueueCounts, QueueSelection};
use redeliver_operator::status::containers::{Containers, CounterHistory};
use redeliver_operator::status::day::Day;
use redeliver_operator::status::{MetricsClient, Problem, QueriedService, QueueFlow, Status, query_status};

use crate::background::BackgroundTask;

/// The interval between two requests for counts. SQS refreshes them about every minute.
pub(crate) const COUNTS_EVERY: Duration = Duration::from_secs(10);
/// Number of requests for counts per full query; the full query itself is one of them.
const COUNTS_PER_ROUND: u32 = 6;
/// The interval between two requests for the last day's data, which is shown in half-hour steps.
const DAY_EVERY: TimeDelta = TimeDelta::minutes(5);
/// Polling ends after this time without a request for the page.
const IDLE_AFTER: TimeDelta = TimeDelta::seconds(30);

/// The last status, and the time of the last request for it.
#[derive(Debug, Default)]
pub(crate) struct StatusPoll {
    pub(crate) last_seen: Arc<BackgroundTask<LiveStatus>>,
    requested_at: Mutex<Timestamp>,
    /// The containers given with `--metrics`.
    containers: Option<Containers>,
    /// The containers' counters so far.
    history: Mutex<CounterHistory>,
}

/// A deployment's status at a given time.
#[derive(Clone, Debug)]
pub(crate) struct LiveStatus {
    pub(crate) at: Timestamp,
    pub(crate) status: Status,
    /// One per queue, in the same order as in the status; empty if CloudWatch cannot be queried.
    pub(crate) flows: Vec<QueueFlow>,
    /// The deployment's alarms, each with its state.
    pub(crate) alarms: Vec<(String, String)>,
    /// `None` if neither CloudWatch nor a container could be queried.
    pub(crate) day: Option<Arc<Day>>,
}

/// The result of the most recent query for the last day, and the time of the query.
type LastDay = Option<(Timestamp, Result<Arc<Day>, String>)>;

impl StatusPoll {
    pub(crate) fn new(containers: Option<Containers>) -> Self {
        Self { containers, ..Self::default() }
    }

    /// Records that a page is open, and starts polling unless it is already running. Polling ends 30 s after the last
    /// call.
    pub(crate) fn keep_polling(
        self: &Arc<Self>,
        queues: &QueueSelection,
        connection: &AwsConnection,
        dlq_arn: &str,
    ) {
        *self.requested_at() = SystemClock.now();
        let (now, queues, connection) = (Arc::clone(self), queues.clone(), connection.clone());
        let dlq_arn = dlq_arn.to_owned();
        self.last_seen.start_task(move || async move {
            let mut last_day = LastDay::None;
            while !now.is_idle() {
                let round = async {
                    let open = queues.open_queues(&connection).await?;
                    let at = SystemClock.now();
                    let mut status = query_status(&connection, &open, queues.deployment_name(), at).await?;
                    let FlowsAndAlarms { flows, alarms } =
                        query_cloudwatch(&connection, &mut status, at).await;
                    let is_old = |(requested_at, day): &(Timestamp, Result<Arc<Day>, _>)| {
                        at - *requested_at >= DAY_EVERY || day.as_ref().is_ok_and(|day| day.is_over(at))
                    };
                    if last_day.as_ref().is_none_or(is_old) {
                        let day = Day::query_day(&connection, &status.queues, &dlq_arn, at).await;
                        last_day = Some((at, day.map(Arc::new).map_err(|error| error.to_string())));
                    }
                    let day = match &last_day {
                        Some((_, Ok(day))) => Some(Arc::clone(day)),
                        Some((_, Err(why))) => {
                            status.problems.push(cloudwatch_problem("the last day", why.clone()));
                            None
                        }
                        None => None,
                    };
                    let day = now.add_containers(&mut status, day, at).await;
                    now.last_seen.publish_result(Ok(LiveStatus { at, status, flows, alarms, day }));
                    now.refresh_counts(&open).await
                };
                if let Err(error) = round.await {
                    now.last_seen.publish_result(Err(error));
                    SystemClock.sleep(COUNTS_EVERY).await;
                }
            }
        });
    }

    /// Returns the number of messages in a queue, according to SQS's most recent count.
    pub(crate) fn message_count(&self, queue_arn: &str) -> Option<u64> {
        let seen = self.last_seen.last_result()?;
        let queue = seen.status.queues.iter().find(|queue| queue.arn == queue_arn)?;
        queue.counts.visible.map(|_| queue.counts.total_messages())
    }

    /// Queries the containers given with `--metrics` for the target's state, and for any of the last day's data that
    /// CloudWatch lacks.
    async fn add_containers(
        &self,
        status: &mut Status,
        day: Option<Arc<Day>>,
        at: Timestamp,
    ) -> Option<Arc<Day>> {
        let Some(containers) = &self.containers else { return day };
        let answers = containers.read_counters().await;
        let mut history = lock(&self.history);
        history.record_counters(at, &answers);
        let target = history.target_status(at);
        status.target = Some(status.target.map_or(target, |seen| seen.combine_with(target)));
        for problem in answers.into_iter().filter_map(Result::err) {
            Problem::record_problem(&mut status.problems, problem);
        }
        Day::with_containers(day.as_deref(), &history, at).map(Arc::new)
    }

    /// Refreshes the counts until the next full query is due.
    async fn refresh_counts(&self, open: &[OpenQueue]) -> Result<(), CommandFailure> {
        for _ in 1..COUNTS_PER_ROUND {
            SystemClock.sleep(COUNTS_EVERY).await;
            if self.is_idle() {
                return Ok(());
            }
            let Some(mut seen) = self.last_seen.last_result().map(Arc::unwrap_or_clone) else {
                return Ok(());
            };
            for (queue, OpenQueue { known, .. }) in seen.status.queues.iter_mut().zip(open) {
                let depth = known.queue.depth().await?;
                queue.counts = QueueCounts {
                    visible: Some(depth.visible),
                    in_flight: Some(depth.in_flight),
                    delayed: Some(depth.delayed),
                    ..queue.counts
                };
            }
            seen.at = SystemClock.now();
            self.last_seen.publish_result(Ok(seen));
        }
        SystemClock.sleep(COUNTS_EVERY).await;
        Ok(())
    }

    fn is_idle(&self) -> bool {
        SystemClock.now() - *self.requested_at() > IDLE_AFTER
    }

    fn requested_at(&self) -> MutexGuard<'_, Timestamp> {
        lock(&self.requested_at)
    }
}

#[derive(Default)]
struct FlowsAndAlarms {
    flows: Vec<QueueFlow>,
    alarms: Vec<(String, String)>,
}

/// Queries CloudWatch for flows and alarms. An error is added to the status's problems.
async fn query_cloudwatch(connection: &AwsConnection, status: &mut Status, at: Timestamp) -> FlowsAndAlarms {
    let Some(first) = status.queues.first() else { return FlowsAndAlarms::default() };
    let names: Vec<_> = status.queues.iter().map(|queue| queue.name.as_str()).collect();
    let metrics = match MetricsClient::for_queue_region(connection, &first.arn).await {
        Ok(metrics) => metrics,
        Err(error) => {
            status.problems.push(cloudwatch_problem("flow, ages and alarms", error.to_string()));
            return FlowsAndAlarms::default();
        }
    };
    let flows = metrics.query_flows(&names, at);
    let alarms = async {
        // The construct's alarms have the same prefix as its queues.
        match names.iter().find_map(|name| name.strip_suffix("final-dlq")) {
            Some(prefix) => metrics.query_alarms(prefix).await,
            None => Ok(Vec::new()),
        }
    };
    let (flows, alarms) = join(flows, alarms).await;
    let mut known =
        |missing, error: CommandFailure| status.problems.push(cloudwatch_problem(missing, error.to_string()));
    let flows = flows.map_err(|error| known("flow and ages", error));
    let alarms = alarms.map_err(|error| known("alarms", error));
    FlowsAndAlarms { flows: flows.unwrap_or_default(), alarms: alarms.unwrap_or_default() }
}

const fn cloudwatch_problem(missing: &'static str, why: String) -> Problem {
    Problem { service: QueriedService::CloudWatch, missing, about: Vec::new(), why }
}
