mod broken_function;
mod full_messages;

use std::future::{pending, ready};
use std::io::BufWriter;

use redeliver_core::events::Event;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Confirmed, Content, OutgoingMessage, ReceivedMessage, Timestamp};
use redeliver_core::polling::receive_records;
use redeliver_core::ports::{Observer, QueueSender as _};
use redeliver_core::strategy::Strategy;
use redeliver_embedded::{EmbeddedQueue, EmbeddedSqs, VirtualClock};

use super::*;

/// An observer that ignores all events.
struct SilentObserver;

impl Observer for SilentObserver {
    fn observe(&self, _: &Event) {}
}

fn engine<'a>(
    topology: &'a Topology<EmbeddedQueue>,
    clock: &'a VirtualClock,
    tracker: &'a Mutex<Tracker>,
) -> Engine<'a, EmbeddedQueue, VirtualClock> {
    Engine {
        topology,
        clock,
        is_virtual: true,
        tracker,
        progress: &|_| {},
        wait: Duration::from_secs(20),
        pollers: Pollers::constant(1),
        inner_pollers: Pollers::constant(1),
        original_body: |body| body,
    }
}

/// Runs `work` with an engine on new queues. Also returns the number of messages left in the queues.
pub(super) fn run_on_queues<T>(
    work: impl AsyncFnOnce(Engine<'_, EmbeddedQueue, VirtualClock>) -> T,
) -> (T, u64) {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 1);
    clock.block_on(async {
        let topology =
            Topology::create_queues(&sqs, "engine", Strategy::DelayedResend, 5, Batching::default())
                .await
                .unwrap();
        let tracker = Mutex::default();
        let engine = Engine { wait: Duration::ZERO, ..engine(&topology, &clock, &tracker) };
        let outcome = work(engine).await;
        (outcome, topology.count_messages().await.unwrap())
    })
}

pub(super) fn message(body: &str) -> OutgoingMessage {
    OutgoingMessage::new(Content { body: body.to_owned(), ..Content::default() }).unwrap()
}

/// A file on a full disk.
struct FullDisk;

impl Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_final_record_that_is_not_written_out_stays_in_its_queue() {
    let (outcome, left) = run_on_queues(async |engine| {
        engine.lock_tracker().record_sent("{}");
        engine.topology.final_dlq.send_batch(pack_batches(&[message("{}")])[0]).await;
        engine.read_final_dlq(&mut BufWriter::new(FullDisk), &Cell::new(false)).await
    });
    assert!(matches!(outcome, Err(LoopError::Output(_))), "{outcome:?}");
    assert_eq!(left, 1);
}

#[test]
fn a_stop_interrupts_sending() {
    let messages = || vec![message("{}"), message("{}")];
    let (outcome, sent) = run_on_queues(async |engine| engine.send_messages(messages(), ready(())).await);
    let error = outcome.unwrap_err().to_string();
    assert_eq!(error, "interrupted while sending the messages: at least 0 of 2 were sent");
    assert_eq!(sent, 0);
    let (outcome, sent) = run_on_queues(async |engine| engine.send_messages(messages(), pending()).await);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(sent, 2);
}

/// Sends thirty messages, one every ten seconds. Returns the number of messages received and the batch sizes.
fn send_thirty_messages(window: u64, size: u8) -> (usize, Vec<usize>) {
    struct BatchSizes(Mutex<Vec<usize>>);
    impl Function for BatchSizes {
        async fn process_batch(&self, records: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
            self.0.lock().unwrap().push(records.len());
            Vec::new()
        }
    }
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 1);
    clock.block_on(async {
        let batching = Batching { size, window: Duration::from_secs(window) };
        let topology =
            Topology::create_queues(&sqs, "engine", Strategy::DelayedResend, 5, batching).await.unwrap();
        let tracker = Mutex::default();
        let engine = engine(&topology, &clock, &tracker);
        let (sizes, done) = (BatchSizes(Mutex::default()), Cell::new(false));
        let poll = engine.poll_queue(&topology.source, &sizes, Pollers::constant(1), batching, &done);
        let send = async {
            for _ in 0..30 {
                engine.send_messages(vec![message("{}")], pending()).await.unwrap();
                clock.sleep(Duration::from_secs(10)).await;
            }
            clock.sleep(Duration::from_secs(600)).await;
            done.set(true);
        };
        let (polled, ()) = join!(poll, send);
        polled.unwrap();
        let sizes = sizes.0.into_inner().unwrap();
        (sizes.iter().sum(), sizes)
    })
}

#[test]
fn a_batch_waits_until_it_is_full_or_its_window_is_over() {
    assert_eq!(send_thirty_messages(0, 10), (30, vec![1; 30]));
    // The first batch has the messages sent at 0, 10, 20 and 30 s, all within the window.
    assert_eq!(send_thirty_messages(35, 10).0, 30);
    assert_eq!(send_thirty_messages(35, 10).1[0], 4);
    assert_eq!(send_thirty_messages(300, 10), (30, vec![10; 3]));
    assert_eq!(send_thirty_messages(300, 3), (30, vec![3; 10]));
}

#[test]
fn messages_are_considered_lost_after_several_consecutive_empty_counts() {
    let seconds = |clock: &VirtualClock| clock.now().timestamp();
    let (lost_after, _) = run_on_queues(async |engine| {
        let (clock, queue) = (engine.clock, &engine.topology.final_dlq);
        let passing_message = async {
            // The message becomes visible between the first and the second count.
            clock.sleep(COUNT_PAUSE * 3 / 2).await;
            queue.send_batch(pack_batches(&[message("{}")])[0]).await;
            clock.sleep(COUNT_PAUSE).await;
            let taken = receive_records(queue, 10, Duration::ZERO).await.unwrap();
            queue.delete_batch(&[taken[0].receipt_handle.clone()]).await;
        };
        let lost = async {
            engine.wait_until_messages_are_lost().await;
            seconds(clock)
        };
        join!(lost, passing_message).0
    });
    assert_eq!(lost_after, 5 * 60);
}
