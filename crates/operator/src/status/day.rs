//! The last 24 hours of a deployment in half-hour periods, from CloudWatch and from containers' `/metrics`.

use std::ops::Range;

use chrono::{DurationRound as _, TimeDelta};
use redeliver_aws::telemetry::metrics::{self, FUNCTION, NAMESPACE};
use redeliver_core::message::Timestamp;
use redeliver_core::strategy::Role;

use super::breaker_functions;
use super::containers::CounterHistory;
use super::metrics::MetricsClient;
use super::report::{NAMED, QueueStatus};
use crate::CommandFailure;
use crate::queues::AwsConnection;
use crate::queues::cloudwatch::{MetricQuery, Point};

/// The number of half hours per day.
pub const PERIODS: usize = 48;
const PERIOD: TimeDelta = TimeDelta::minutes(30);

/// One count per half hour.
pub type HalfHourCounts = [u64; PERIODS];

/// Counts and their origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    pub counts: HalfHourCounts,
    pub origin: SeriesOrigin,
}

/// The origin of a series' counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesOrigin {
    /// The SQS metrics in CloudWatch.
    Queues,
    /// redeliver's own metrics in CloudWatch.
    Functions,
    /// Containers' `/metrics`, since this time.
    Containers(Timestamp),
}

/// The last 24 hours. The final half hour is still in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// The start of the first half hour.
    pub from: Timestamp,
    /// Sends to the source queue, minus the messages that left the intermediate DLQ, which are resends. `None` without
    /// CloudWatch.
    pub arrived: Option<HalfHourCounts>,
    /// Processed messages; without redeliver's own metrics, deletions from the source queue that were not hand-offs.
    pub done: Series,
    /// Holds: a message held ten times counts ten times. `None` without redeliver's own metrics.
    pub held: Option<Series>,
    /// Sends to the final DLQ. `None` if SQS itself moves the dead letters, since it does not count those moves.
    pub dead: Option<Series>,
    /// Half hours with a sign that the target was down.
    pub outages: [bool; PERIODS],
}

impl Day {
    /// Queries CloudWatch for five queue metrics, and for three metrics of each function that calls the target.
    pub async fn query_day(
        connection: &AwsConnection,
        queues: &[QueueStatus],
        dlq_arn: &str,
        now: Timestamp,
    ) -> Result<Self, CommandFailure> {
        const SENT: &str = "NumberOfMessagesSent";
        const DELETED: &str = "NumberOfMessagesDeleted";
        let by_role = |role: Role| queues.iter().find(|queue| queue.role == role.display_name());
        let named = || queues.iter().find(|queue| queue.role == NAMED && queue.arn != dlq_arn);
        let source = by_role(Role::Source).or_else(named);
        let intermediate = by_role(Role::IntermediateDlq);
        let final_dlq = by_role(Role::FinalDlq);
        let functions =
            source.and_then(|queue| queue.mappings.as_deref()).map(breaker_functions).unwrap_or_default();
        let Some(first) = queues.first() else { return Err("no queues to read".into()) };
        let queue_metrics = [
            (source, SENT),
            (source, DELETED),
            (intermediate, SENT),
            (intermediate, DELETED),
            (final_dlq, SENT),
        ];
        let mut queries = Vec::new();
        let mut places = Vec::new();
        for (place, (queue, name)) in queue_metrics.into_iter().enumerate() {
            if let Some(queue) = queue {
                queries.push(MetricQuery::for_queue(name, &queue.name));
                places.push(place);
            }
        }
        for function in functions {
            let own = [metrics::Metric::Processed, metrics::Metric::Held, metrics::Metric::CircuitOpen];
            for (place, metric) in (queue_metrics.len()..).zip(own) {
                let dimension = (FUNCTION, function);
                queries.push(MetricQuery {
                    namespace: NAMESPACE,
                    name: metric.name(),
                    dimension,
                    statistic: "Sum",
                });
                places.push(place);
            }
        }
        let Range { start: from, end } = day_range(now);
        let metrics = MetricsClient::for_queue_region(connection, &first.arn).await?;
        let points = metrics.query_points(&queries, PERIOD, from, end).await?;
        let mut all = [const { Vec::new() }; 8];
        for (place, points) in places.into_iter().zip(points) {
            all[place].extend(points);
        }
        Ok(Self::from_points(from, &all, final_dlq.is_some()))
    }

    /// Computes the day from datapoints: sends to and deletions from the source queue and the intermediate DLQ, sends
    /// to the final DLQ, and the functions' `Processed`, `Held` and `CircuitOpen` metrics.
    fn from_points(from: Timestamp, points: &[Vec<Point>; 8], has_final_dlq: bool) -> Self {
        let [sent, deleted, handed_off, resent, dead, processed, held, circuit_open] =
            points.each_ref().map(|points| sum_by_period(from, points));
        let [.., own_processed, own_held, _] = points;
        let has_own_metrics = !own_processed.is_empty() || !own_held.is_empty();
        let by_functions = |counts| Series { counts, origin: SeriesOrigin::Functions };
        let by_queues = |counts| Series { counts, origin: SeriesOrigin::Queues };
        Self {
            from,
            arrived: Some(subtract_counts(sent, resent)),
            done: if has_own_metrics {
                by_functions(processed)
            } else {
                by_queues(subtract_counts(deleted, handed_off))
            },
            held: has_own_metrics.then(|| by_functions(held)),
            dead: has_final_dlq.then(|| by_queues(dead)),
            outages: circuit_open.map(|signs| signs > 0),
        }
    }

    /// Uses containers' counts for series that are missing from CloudWatch's day. Existing series are kept, since they
    /// cover the entire day. A queue series whose counts are all 0 is late, or comes from an emulator, and counts as
    /// missing.
    pub fn with_containers(
        cloudwatch: Option<&Self>,
        history: &CounterHistory,
        now: Timestamp,
    ) -> Option<Self> {
        let Some(since) = history.first_read_at() else { return cloudwatch.cloned() };
        let from = cloudwatch.map_or_else(|| day_range(now).start, |day| day.from);
        let [processed, held, dead, circuit_open] =
            history.counter_points().each_ref().map(|points| sum_by_period(from, points));
        let series = |counts| Series { counts, origin: SeriesOrigin::Containers(since.max(from)) };
        let outages = circuit_open.map(|signs| signs > 0);
        let Some(day) = cloudwatch.cloned() else {
            let (done, held, dead) = (series(processed), Some(series(held)), Some(series(dead)));
            return Some(Self { from, arrived: None, done, held, dead, outages });
        };
        let counted =
            |series: &Series| series.counts != [0; PERIODS] || series.origin == SeriesOrigin::Functions;
        Some(Self {
            done: if counted(&day.done) { day.done } else { series(processed) },
            outages: if day.held.is_some() { day.outages } else { outages },
            held: day.held.or_else(|| Some(series(held))),
            dead: day.dead.filter(counted).or_else(|| Some(series(dead))),
            ..day
        })
    }

    /// Returns true once the next half hour has begun, since its counts do not belong to this day.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now >= self.period_start(PERIODS)
    }

    /// Returns the start of a half hour.
    pub fn period_start(&self, period: usize) -> Timestamp {
        self.from + PERIOD * i32::try_from(period).unwrap_or(0)
    }

    /// Returns the outages as ranges of half hours: the first (inclusive) and the end (exclusive).
    pub fn outage_bands(&self) -> Vec<(usize, usize)> {
        let mut bands: Vec<(usize, usize)> = Vec::new();
        for (period, _) in self.outages.iter().enumerate().filter(|(_, was_down)| **was_down) {
            match bands.last_mut() {
                Some((_, end)) if *end == period => *end += 1,
                _ => bands.push((period, period + 1)),
            }
        }
        bands
    }
}

/// Returns the range from the start of the first half hour to the end of the last.
fn day_range(now: Timestamp) -> Range<Timestamp> {
    let end = now.duration_trunc(PERIOD).unwrap_or(now) + PERIOD; // fails only after the year 2262
    end - TimeDelta::days(1)..end
}

fn sum_by_period(from: Timestamp, points: &[Point]) -> HalfHourCounts {
    let mut counts = [0; PERIODS];
    for (at, value) in points {
        let period = usize::try_from((*at - from).num_seconds().div_euclid(PERIOD.num_seconds()));
        if let Some(count) = period.ok().and_then(|period| counts.get_mut(period)) {
            *count += value.unsigned_abs();
        }
    }
    counts
}

/// Subtracts counts, with a minimum of 0: a message may be sent in one half hour and deleted in the next.
fn subtract_counts(mut counts: HalfHourCounts, others: HalfHourCounts) -> HalfHourCounts {
    counts.iter_mut().zip(others).for_each(|(count, other)| *count = count.saturating_sub(other));
    counts
}

#[cfg(test)]
mod tests {
    use redeliver_testing::loopback::Loopback;

    use super::super::metrics::tests::page;
    use super::*;
    use crate::queues::event_sources::LambdaMapping;

    const FROM: i64 = 1_795_305_600 + 3600;

    fn point_at(period: i64, value: i64) -> Point {
        (Timestamp::from_timestamp(FROM + period * 1800, 0).unwrap(), value)
    }

    fn day_start() -> Timestamp {
        point_at(0, 0).0
    }

    #[test]
    fn a_resent_message_is_not_counted_as_new() {
        let points = [
            vec![point_at(0, 100), point_at(47, 30), point_at(48, 9), point_at(-1, 9)],
            vec![point_at(0, 90)],
            vec![point_at(0, 40)],
            vec![point_at(0, 35), point_at(1, 5)],
            vec![point_at(1, 2)],
            vec![],
            vec![],
            vec![],
        ];
        let day = Day::from_points(day_start(), &points, true);
        let arrived = day.arrived.unwrap();
        assert_eq!((arrived[0], arrived[1], arrived[47]), (65, 0, 30));
        assert_eq!((day.done.counts[0], day.held, day.dead.unwrap().counts[1]), (50, None, 2));
        assert_eq!(
            Day::from_points(day_start(), &points, false).dead,
            None,
            "SQS does not count its own moves"
        );
    }

    #[test]
    fn own_metrics_override_queue_metrics_and_outage_signs_form_bands() {
        let [mut points] = [[const { Vec::new() }; 8]];
        points[1] = vec![point_at(3, 90)];
        points[5] = vec![point_at(3, 50), point_at(3, 1)];
        points[6] = vec![point_at(4, 7)];
        points[7] = vec![point_at(4, 2), point_at(5, 1), point_at(9, 1), point_at(10, 0)];
        let day = Day::from_points(day_start(), &points, true);
        assert_eq!((day.done.counts[3], day.held.as_ref().unwrap().counts[4]), (51, 7));
        assert_eq!(day.outage_bands(), [(4, 6), (9, 10)]);
        assert_eq!(day.period_start(9), day_start() + TimeDelta::minutes(270));
        let end = day_start() + TimeDelta::days(1);
        assert!(day.is_over(end) && !day.is_over(end - TimeDelta::seconds(1)));
    }

    #[tokio::test]
    async fn a_day_queries_five_queue_metrics_and_three_function_metrics() {
        let server = Loopback::start_scripted([
            page("q0", "Complete", &[(FROM, 12.0)], Some("more")),
            page("q5", "Complete", &[(FROM, 10.0)], None),
        ]);
        let connection =
            AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(server.url().to_owned()));
        let queue = |role: Role, name: &str| {
            let arn = format!("arn:aws:sqs:eu-central-1:000000000000:{name}");
            QueueStatus::new(role.display_name(), &arn, &std::collections::BTreeMap::new())
        };
        let mapping = LambdaMapping {
            uuid: "u".to_owned(),
            function: "caller:live".to_owned(),
            source: String::new(),
            reports_failures: true,
            state: "Enabled".to_owned(),
            batch_size: None,
            maximum_concurrency: None,
            last_modified: None,
        };
        let source = QueueStatus { mappings: Some(vec![mapping]), ..queue(Role::Source, "in") };
        let queues = [source, queue(Role::IntermediateDlq, "again"), queue(Role::FinalDlq, "dead")];
        let now = day_start() + TimeDelta::days(1) - TimeDelta::minutes(1);
        let day = Day::query_day(&connection, &queues, "", now).await.unwrap();
        assert_eq!((day.from, day.arrived.unwrap()[0], day.done.counts[0]), (day_start(), 12, 10));
        let (_, body) = &server.requests()[0];
        for word in ["again", "dead", "Processed", "Held", "CircuitOpen", "caller"] {
            assert!(body.contains(word), "{word}: {body}");
        }
        assert_eq!(body.matches("MetricName").count(), 8);
    }
}
