//! The inner functions: the failed-message-processor and the final-dlq-annotator. Each invocation takes time, so their
//! queues can back up.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::sync::Mutex;

use redeliver_core::deliver::time_until;
use redeliver_core::limits::BATCH_ENTRIES_MAX;
use redeliver_core::lock;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, Function};
use redeliver_embedded::{EmbeddedSqs, VirtualClock};
use serde::Serialize;

use super::scenario::serialize_as_name;
use super::times::ModelTimes;

/// The highest `MaximumConcurrency` ("ScalingConfig", AWS Lambda API Reference).
pub const INNER_CONCURRENCY_MAX: u16 = 1000;
/// The amount of work that may wait in the queue, and the time span for measuring the peak rate. Work that can be done
/// within a minute is a burst, not a bottleneck.
const BURST_SECONDS: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerFunctionName {
    FailedMessageProcessor,
    FinalDlqAnnotator,
}

impl Display for InnerFunctionName {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::FailedMessageProcessor => "failed-message-processor",
            Self::FinalDlqAnnotator => "final-dlq-annotator",
        })
    }
}

/// An inner function that cannot keep up with its queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    #[serde(serialize_with = "serialize_as_name")]
    pub function: InnerFunctionName,
    /// The messages per second that it would receive in the busiest minute if it kept up.
    pub wanted_per_second: u64,
    /// The messages per second that it can process in full batches.
    pub possible_per_second: u64,
    /// The `innerConcurrency` needed for the wanted rate, even if it is above the limit.
    pub inner_concurrency_needed: u64,
    /// The maximum number of messages waiting in its queue.
    pub backlog_max: u64,
    /// The drain time of the scenario if the function always kept up.
    pub drain_seconds_without: u64,
    #[serde(skip)]
    pub load: InnerLoad,
}

/// The load on an inner function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InnerLoad {
    /// The number of messages received, by minute.
    received: BTreeMap<u64, u64>,
    /// The maximum number of messages left in its queue, for each second with an invocation.
    backlog: BTreeMap<u64, u64>,
}

impl InnerLoad {
    /// Returns the maximum backlog in a range of seconds since the first message.
    pub fn max_backlog(&self, seconds: Range<u64>) -> u64 {
        self.backlog.range(seconds).map(|(_, messages)| *messages).max().unwrap_or(0)
    }

    /// Returns the last second with an invocation.
    pub fn last_second(&self) -> u64 {
        self.backlog.last_key_value().map_or(0, |(second, _)| *second)
    }

    fn record_batch(&mut self, second: u64, received: usize, backlog: u64) {
        *self.received.entry(second / BURST_SECONDS).or_default() += received as u64;
        let most = self.backlog.entry(second).or_default();
        *most = backlog.max(*most);
    }

    fn peak_per_second(&self) -> u64 {
        self.received.values().max().map_or(0, |messages| messages.div_ceil(BURST_SECONDS))
    }
}

/// The load on both inner functions.
#[derive(Debug, Default)]
pub(super) struct InnerLoads {
    pub(super) failed_message_processor: Mutex<InnerLoad>,
    pub(super) final_dlq_annotator: Mutex<InnerLoad>,
}

impl InnerLoads {
    /// Returns true if one of the functions had more than a minute's work waiting.
    pub(super) fn has_backlog(&self, inner_concurrency: u16, times: &ModelTimes) -> bool {
        let backlog = BURST_SECONDS.saturating_mul(possible_per_second(inner_concurrency, times));
        self.named_loads().any(|(_, load)| lock(load).max_backlog(0..u64::MAX) > backlog)
    }

    /// Returns the function with the longest backlog, given the loads and the drain time of a run in which both
    /// functions keep up.
    pub(super) fn find_bottleneck(
        &self,
        inner_concurrency: u16,
        times: &ModelTimes,
        kept_up: &Self,
        drain_seconds_without: u64,
    ) -> Option<Bottleneck> {
        let possible_per_second = possible_per_second(inner_concurrency, times);
        let bottlenecks =
            self.named_loads().zip(kept_up.named_loads()).map(|((function, load), (_, kept_up))| {
                let load = lock(load).clone();
                let wanted_per_second = lock(kept_up).peak_per_second();
                let inner_concurrency_needed =
                    wanted_per_second.div_ceil(self::possible_per_second(1, times));
                let backlog_max = load.max_backlog(0..u64::MAX);
                Bottleneck {
                    function,
                    wanted_per_second,
                    possible_per_second,
                    inner_concurrency_needed,
                    backlog_max,
                    drain_seconds_without,
                    load,
                }
            });
        bottlenecks
            .filter(|bottleneck| bottleneck.wanted_per_second > possible_per_second)
            .max_by_key(|bottleneck| bottleneck.backlog_max)
    }

    fn named_loads(&self) -> impl Iterator<Item = (InnerFunctionName, &Mutex<InnerLoad>)> {
        [
            (InnerFunctionName::FailedMessageProcessor, &self.failed_message_processor),
            (InnerFunctionName::FinalDlqAnnotator, &self.final_dlq_annotator),
        ]
        .into_iter()
    }
}

/// Returns the messages per second that can be processed in full batches, with one receive and one send per batch.
fn possible_per_second(inner_concurrency: u16, times: &ModelTimes) -> u64 {
    let milliseconds = u64::try_from((times.receive + times.request).as_millis()).unwrap_or(u64::MAX);
    let messages = u64::from(inner_concurrency) * BATCH_ENTRIES_MAX as u64 * 1000;
    messages.checked_div(milliseconds).unwrap_or(u64::MAX)
}

/// An inner function, and the load on it.
pub(super) struct InnerFunction<'a, F> {
    pub(super) function: F,
    /// The ARN of its queue.
    pub(super) queue: String,
    pub(super) sqs: &'a EmbeddedSqs,
    pub(super) clock: &'a VirtualClock,
    pub(super) start: Timestamp,
    pub(super) load: &'a Mutex<InnerLoad>,
}

impl<F: Function> Function for InnerFunction<'_, F> {
    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let second = time_until(self.start, self.clock.now()).as_secs();
        lock(self.load).record_batch(second, records.len(), self.sqs.visible_count(&self.queue));
        self.function.process_batch(records, deadline).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redeliver_core::policy::Policy;
    use redeliver_core::strategy::Strategy;

    use super::*;
    use crate::planner::{Scenario, TargetFault, run_policy};

    fn bottleneck(messages: u64) -> Option<Bottleneck> {
        let scenario = Scenario {
            strategy: Strategy::DirectResend,
            messages,
            fault: TargetFault::FailureRate(1.0),
            over: Duration::from_secs(1),
            max_concurrency: 1000,
            inner_concurrency: 2,
            times: ModelTimes { request: Duration::from_millis(100), ..ModelTimes::NONE },
            ..Scenario::default()
        };
        let policy = Policy::from_json(r#"{"max_attempts":0,"circuit_breaker":false}"#).unwrap();
        run_policy(&policy, &scenario, &|_| {}).unwrap().bottleneck
    }

    /// Without retries, all messages become dead letters immediately. No strategy bypasses the final-dlq-annotator.
    #[test]
    fn more_than_a_minute_of_work_makes_the_annotator_a_bottleneck() {
        let found = bottleneck(12_100).unwrap();
        assert_eq!(found.function, InnerFunctionName::FinalDlqAnnotator);
        assert_eq!((found.backlog_max, found.possible_per_second), (12_050, 200));
        assert_eq!((found.wanted_per_second, found.inner_concurrency_needed), (202, 3));
        assert_eq!((found.load.max_backlog(10..11), found.load.last_second()), (10_110, 60));
        assert_eq!(bottleneck(12_000), None, "a minute's work is a burst");
    }
}
