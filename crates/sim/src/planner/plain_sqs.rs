//! Plain SQS for comparison: a source queue with a visibility timeout, a `maxReceiveCount` and a dead-letter queue, and
//! a function that calls the target for each record of its batch and returns partial batch responses.

use std::time::Duration;

use futures_util::future::join_all;
use redeliver_core::handler::{BodyForm, Message};
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::ports::{EntryError, Function, Queue as _, QueueService, QueueSettings, RedriveSettings};
use redeliver_embedded::{EmbeddedQueue, EmbeddedSqs};
use serde::Serialize;

use super::scenario::Scenario;
use super::target::SimulatedTarget;
use crate::batching::Batching;
use crate::topology::Topology;
use crate::tracker::parse_message_id;

/// The settings of a plain queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PlainSqs {
    #[serde(rename = "visibility_seconds")]
    pub visibility: VisibilitySeconds,
    /// `maxReceiveCount`.
    pub receives: u16,
}

impl PlainSqs {
    /// Creates the queues. The annotation queue is unused, and the final DLQ is the source queue's DLQ.
    pub(super) async fn create_topology(
        self,
        sqs: &EmbeddedSqs,
        scenario: &Scenario,
    ) -> Result<Topology<EmbeddedQueue>, EntryError> {
        let retention = scenario.strategy.definition().source_retention();
        let settings = QueueSettings { retention, ..QueueSettings::default() };
        let final_dlq = sqs.create_queue("plain-dlq", &settings).await?;
        let annotation = sqs.create_queue("plain-unused", &settings).await?;
        let redrive = Some(RedriveSettings {
            target_arn: final_dlq.arn().to_owned(),
            max_receive_count: self.receives,
        });
        let settings = QueueSettings { visibility: self.visibility, redrive, ..settings };
        Ok(Topology {
            retry_loop: scenario.strategy.into(),
            // By default, an event source mapping has no window.
            batching: Batching { window: Duration::ZERO, ..scenario.batching },
            resenders: Resenders::default(),
            source: sqs.create_queue("plain", &settings).await?,
            intermediate: None,
            source_dlq: None,
            annotation,
            final_dlq,
        })
    }
}

/// The function that a team without redeliver would write. It calls the target for all records concurrently.
pub(super) struct PlainFunction<'a>(pub(super) SimulatedTarget<'a>);

impl Function for PlainFunction<'_> {
    async fn process_batch(&self, records: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
        let calls = records.into_iter().map(|record| async {
            let message = Message {
                body: &record.body,
                message_id: &parse_message_id(&record.body)?,
                form: &BodyForm::Envelope,
                retry_attempt: record.receive_count.saturating_sub(1),
                redrive_generation: 0,
                held_seconds: 0,
                attributes: &record.attributes,
            };
            self.0.call_target(&message, record.message_group_id.as_deref()).await.ok()?;
            Some(record.into_receipt().confirm())
        });
        join_all(calls).await.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redeliver_core::policy::Policy;

    use super::*;
    use crate::planner::{Measurements, ModelTimes, TargetFault, run_plain, run_policy};

    fn sixty_messages_and_an_outage(seconds: u64) -> Scenario {
        Scenario {
            messages: 60,
            fault: TargetFault::Outage(Duration::from_secs(seconds)),
            over: Duration::from_secs(60),
            batching: Batching::default(),
            times: ModelTimes::NONE,
            ..Scenario::default()
        }
    }

    fn measure_plain(receives: u16, scenario: &Scenario) -> Measurements {
        let visibility = VisibilitySeconds::new(180).unwrap();
        run_plain(PlainSqs { visibility, receives }, scenario, &|_| {}).unwrap()
    }

    #[test]
    fn a_failed_message_comes_back_after_the_visibility_timeout() {
        let measured = measure_plain(5, &sixty_messages_and_an_outage(30));
        // Each message sent in the first half minute fails once.
        assert_eq!((measured.processed, measured.wasted.while_down, measured.calls), (60, 30, 90));
        assert_eq!(measured.delay_seconds.map(|delays| (delays.p50, delays.max)), Some((0.0, 180.0)));
        // One send and one delete per message, and one receive per call.
        assert_eq!((measured.usage.sqs_requests, measured.usage.invocations.count), (210.0, 90.0));
        assert_eq!(measured.circuit_breaker, None);
    }

    #[test]
    fn a_message_over_its_receive_limit_goes_to_the_dead_letter_queue() {
        let measured = measure_plain(2, &sixty_messages_and_an_outage(3600));
        assert_eq!((measured.processed, measured.unprocessed_count(), measured.calls), (0, 60, 120));
        assert_eq!(measured.dead_lettered.values().sum::<u64>(), 60);
    }

    #[test]
    fn without_an_outage_plain_sqs_and_redeliver_have_the_same_delays() {
        let scenario = Scenario { times: ModelTimes::default(), ..sixty_messages_and_an_outage(0) };
        let delays =
            [run_policy(&Policy::default(), &scenario, &|_| {}).unwrap(), measure_plain(5, &scenario)]
                .map(|measured| measured.delay_seconds);
        assert_eq!(delays[0], delays[1]);
    }
}
