mod our_own_outage;

use std::future::{pending, ready};
use std::io::BufWriter;

use redeliver_core::message::{Content, OutgoingMessage, Timestamp};
use redeliver_core::packing::pack;
use redeliver_core::ports::QueueSender as _;
use redeliver_core::strategy::Strategy;
use redeliver_embedded::{EmbeddedQueue, EmbeddedSqs, VirtualClock};

use super::*;

/// What the engine does on queues of its own, and how many messages are left in them.
fn on_queues<T>(work: impl AsyncFnOnce(Engine<'_, EmbeddedQueue, VirtualClock>) -> T) -> (T, u64) {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 1);
    clock.block_on(async {
        let topology = Topology::create(&sqs, "engine", Strategy::DelayedResend, 5).await.unwrap();
        let engine = Engine {
            topology: &topology,
            clock: &clock,
            ledger: &Mutex::default(),
            progress: &|_| {},
            wait: Duration::ZERO,
            batching_window: Duration::ZERO,
            pollers: 1,
            what_went_in: |body| body,
        };
        let outcome = work(engine).await;
        (outcome, topology.waiting().await.unwrap())
    })
}

fn message(body: &str) -> OutgoingMessage {
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
    let (outcome, left) = on_queues(async |engine| {
        engine.ledger().sent("{}");
        engine.topology.final_dlq.send_batch(pack(&[message("{}")])[0]).await;
        engine.collect(&mut BufWriter::new(FullDisk), &Cell::new(false)).await
    });
    assert!(matches!(outcome, Err(LoopError::Output(_))), "{outcome:?}");
    assert_eq!(left, 1);
}

#[test]
fn feeding_ends_with_what_stops_it() {
    let messages = || vec![message("{}"), message("{}")];
    let (outcome, sent) = on_queues(async |engine| engine.feed(messages(), ready(())).await);
    let error = outcome.unwrap_err().to_string();
    assert_eq!(error, "interrupted while sending the messages: at least 0 of 2 were sent");
    assert_eq!(sent, 0);
    let (outcome, sent) = on_queues(async |engine| engine.feed(messages(), pending()).await);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(sent, 2);
}
