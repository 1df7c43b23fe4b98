//! Copies created during a silence: minutes in which SQS accepts every request but does not respond.

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::ports::{Queue as _, QueueSettings, ReceiveOptions};

use super::*;

/// The stack's setting: six times the function's timeout.
const VISIBILITY: i64 = 180;
const TIMEOUT: i64 = 30;
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// Returns the number of times that one message is re-sent if an event source mapping delivers it until the function
/// succeeds. SQS does not respond for the first `silence` seconds.
fn count_resends(silence: i64) -> usize {
    let world = FunctionWorld::new();
    let visibility = VisibilitySeconds::new(VISIBILITY.unsigned_abs()).unwrap();
    let settings = QueueSettings { visibility, ..QueueSettings::default() };
    let intermediate = world.add_queue_with_settings("intermediate", &settings);
    let (source, annotation) = (world.add_queue("source"), world.add_queue("annotation"));
    let setup = Setup { world, source, intermediate, annotation, ..Setup::new() };
    let silent = setup.source.clone().with_pauses(Duration::ZERO, NEVER);
    let redelivery = Redelivery { source_queue: silent, ..setup.processor().redelivery };
    let silent_processor = FailedMessageProcessor { redelivery, ..setup.processor() };
    let record = handed_off_message(0, nth_body(0), &busy_failure(0));
    let content = Content { body: record.body, attributes: record.attributes, ..Content::default() };
    let (clock, queue) = (&setup.world.clock, &setup.intermediate.queue);
    clock.block_on(async {
        let message = redeliver_core::message::OutgoingMessage::new(content).unwrap();
        let batch = redeliver_core::message::packing::pack_batches(std::slice::from_ref(&message));
        assert!(queue.send_batch(batch[0]).await.iter().all(Result::is_ok));
        loop {
            let request =
                ReceiveOptions { max_messages: 10, wait: Duration::from_secs(20), visibility: None };
            let records = queue.receive(request).await.unwrap();
            let Some(handle) = records.first().map(|record| record.receipt_handle.clone()) else { continue };
            let now = clock.now();
            let deadline = now + Duration::from_secs(TIMEOUT.unsigned_abs());
            let is_silent = (now - start_time()).num_seconds() < silence;
            let healthy = setup.processor();
            let function = if is_silent { &silent_processor } else { &healthy };
            let failed = function.batch_item_failures(records, deadline).await;
            assert_eq!(failed.is_empty(), !is_silent);
            if failed.is_empty() {
                assert!(queue.delete_batch(&[handle]).await[0].is_ok());
                return setup.source.sent_contents().len();
            }
        }
    })
}

#[test]
fn silence_causes_two_copies_per_receive_and_one_at_its_end() {
    // docs/guarantees.md: 2 × (⌊(S + T) ÷ V⌋ + 1) + 1.
    let bound = |silence| 2 * ((silence + TIMEOUT) / VISIBILITY + 1) + 1;
    for (silence, expected) in [(60, 3), (600, 9), (3610, 43)] {
        assert_eq!(count_resends(silence), expected, "{silence} s");
        assert_eq!(usize::try_from(bound(silence)).unwrap(), expected, "{silence} s");
    }
}

#[test]
fn a_response_after_six_seconds_causes_no_copy() {
    let setup = Setup::new();
    let source = setup.source.clone().with_pauses(Duration::ZERO, Duration::from_secs(6));
    let setup = Setup { source, ..setup };
    assert_eq!(setup.process(vec![handed_off_message(0, nth_body(0), &busy_failure(0))]), [""; 0]);
    assert_eq!((setup.source.sent_contents().len(), setup.world.elapsed_seconds()), (1, 6));
}
