//! Redrives that stop early, whose messages return to the DLQ, or whose maximum is zero.

use futures_util::future::{Either, select};

use super::*;

impl World {
    /// Runs the redrive. Until it ends, passes every batch that arrives in the source queue to `on_messages`, then
    /// deletes the batch.
    pub(super) fn apply_with_consumer(
        &self,
        plan: &RedrivePlan,
        mut on_messages: impl AsyncFnMut(Vec<ReceivedMessage>),
    ) -> RedriveReport {
        let (redrive, mut journal) = (self.redrive(plan), self.journal());
        let consumer = async {
            loop {
                self.clock.sleep(Duration::from_secs(1)).await;
                let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
                while let Ok(messages) = self.source.receive(request).await
                    && !messages.is_empty()
                {
                    let handles: Vec<_> =
                        messages.iter().map(|message| message.receipt_handle.clone()).collect();
                    on_messages(messages).await;
                    self.source.delete_batch(&handles).await;
                }
            }
        };
        self.clock.block_on(async {
            match select(pin!(redrive.apply(&mut journal)), pin!(consumer)).await {
                Either::Left((report, _)) => report.unwrap(),
                Either::Right(_) => unreachable!("the consumer never ends"),
            }
        })
    }

    /// Sends the messages' bodies to a queue with a delay.
    pub(super) async fn resend(
        &self,
        queue: &EmbeddedQueue,
        messages: Vec<ReceivedMessage>,
        delay_seconds: u64,
    ) {
        let delay = redeliver_core::limits::DelaySeconds::new(delay_seconds).unwrap();
        let outgoing = messages.into_iter().map(|message| {
            OutgoingMessage::new(Content { body: message.body, delay, ..Content::default() }).unwrap()
        });
        for batch in pack_batches(&outgoing.collect::<Vec<_>>()) {
            queue.send_batch(batch).await;
        }
    }
}

#[test]
fn returned_messages_of_a_stopped_run_are_sent_by_the_next_run() {
    let world = World::new((0..60).map(dead_letter).collect());
    let plan = unfiltered_plan();
    let first =
        world.apply_with_consumer(&plan, async |messages| world.resend(&world.dlq, messages, 0).await);
    assert_eq!(
        (first.sent, first.returned_count(), RedriveOutcome::from_report(&first, u64::MAX)),
        (50, 50, RedriveOutcome::Stopped)
    );
    assert_eq!(world.depths(), (60, 0));
    // The cause is fixed now.
    let second = world.apply(&plan).unwrap();
    assert_eq!(
        (second.sent, second.returned_count(), RedriveOutcome::from_report(&second, u64::MAX)),
        (60, 0, RedriveOutcome::Done)
    );
    assert_eq!(world.depths(), (0, 60));
}

#[test]
fn a_redrive_with_returned_messages_does_not_end_as_done() {
    let mut world = World::new((0..60).map(dead_letter).collect());
    world.limits.stop_after_failures_percent = 100;
    let plan = unfiltered_plan();
    let report =
        world.apply_with_consumer(&plan, async |messages| world.resend(&world.dlq, messages, 0).await);
    assert_eq!((report.sent, report.returned_count() >= 50), (60, true));
    assert_eq!(RedriveOutcome::from_report(&report, u64::MAX), RedriveOutcome::Left, "{report:?}");
}

#[test]
fn a_redrive_with_a_maximum_of_zero_sends_nothing() {
    let mut world = World::new((0..3).map(dead_letter).collect());
    world.limits.max = 0;
    assert_eq!(world.apply(&unfiltered_plan()).unwrap().sent, 0);
    assert_eq!(world.depths(), (3, 0));
}
