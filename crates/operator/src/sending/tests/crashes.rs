//! Crashes after which the queue and the journal can disagree. A second run finishes the send.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Content, OutgoingMessage};
use redeliver_core::ports::QueueSender as _;

use super::*;

const LINES: usize = 95;

/// Truncates the journal of a complete run at each byte, as a crash could.
#[test]
fn a_crash_at_any_journal_byte_resends_only_unrecorded_lines() {
    let input = messages(LINES);
    let mut complete_journal = journal();
    World::new().send(&input, &mut complete_journal);
    let complete_journal = complete_journal.into_output();
    let mut copies_seen = Vec::new();
    for cut in 0..=complete_journal.len() {
        // The first run sent all lines in its journal, and the batch whose record is truncated.
        let known = journal::read_journal(&complete_journal[..cut]).unwrap();
        let lines = |known: &ConfirmedLines| (1..=LINES).filter(|number| known.contains(*number)).count();
        let before = lines(&known.confirmed);
        let world = World::new();
        put_lines(&world, (before + 10).min(LINES));
        let rules = LineRules { confirmed: known.confirmed, ..LineRules::default() };
        let mut journal =
            SendJournal::resume(complete_journal[..usize::try_from(known.bytes).unwrap()].to_vec());
        if known.queue.is_none() {
            journal = super::journal();
        }
        let summary = world.send_with_rules(&input, rules, Some(&mut journal), pending());
        assert_eq!((summary.sent, summary.sent_before), ((LINES - before) as u64, before as u64));
        assert_eq!(lines(&super::read_confirmed_lines(journal)), LINES, "the second journal is complete");
        let bodies = world.drain_bodies();
        assert_eq!(bodies.len(), LINES, "every line was sent at least once");
        let copies = bodies.values().filter(|count| **count == 2).count();
        assert_eq!(copies, (before + 10).min(LINES) - before, "only lines that were sent but not recorded");
        assert!(bodies.values().all(|count| *count <= 2));
        copies_seen.push(copies);
    }
    assert_eq!((copies_seen[0], copies_seen.last()), (10, Some(&0)));
}

/// Puts lines 1..=count into the queue.
fn put_lines(world: &World, count: usize) {
    let messages: Vec<_> = (1..=count)
        .map(|number| Content { body: message(number), ..Content::default() })
        .map(|content| OutgoingMessage::new(content).unwrap())
        .collect();
    world.clock.block_on(async {
        for batch in pack_batches(&messages) {
            assert!(world.queue.send_batch(batch).await.iter().all(Result::is_ok));
        }
    });
}

/// A disk that accepts `writes_left` writes, truncates the last of them, and is then full.
struct FillingDisk {
    written: Vec<u8>,
    writes_left: AtomicUsize,
}

impl Write for FillingDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.writes_left.load(Ordering::Relaxed) {
            0 => Err(io::ErrorKind::StorageFull.into()),
            left => {
                self.writes_left.store(left - 1, Ordering::Relaxed);
                let taken = if left == 1 { bytes.len() / 2 } else { bytes.len() };
                self.written.extend(&bytes[..taken]);
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_unwritable_journal_stops_the_send_and_a_second_run_completes_it() {
    let world = World::new();
    let input = messages(1000);
    let disk = FillingDisk { written: Vec::new(), writes_left: AtomicUsize::new(5) };
    let mut journal = SendJournal::begin(disk, "arn").unwrap();
    let summary = world.send(&input, &mut journal);
    let Some(StopReason::Journal(reason)) = &summary.stopped else { panic!("{summary:?}") };
    assert!(reason.ends_with("were sent and will be sent again"), "{reason}");
    assert_eq!(summary.exit_code(), ExitCode::Failed);
    assert!(summary.sent < 1000, "no new batch after the failure");
    let known = journal::read_journal(&*journal.into_output().written).unwrap();
    let before = (1..=1000).filter(|number| known.confirmed.contains(*number)).count();
    assert_eq!(before, 30, "three records are complete, and the fourth is torn");
    let rules = LineRules { confirmed: known.confirmed, ..LineRules::default() };
    let second = world.send_with_rules(&input, rules, None::<&mut SendJournal<Vec<u8>>>, pending());
    assert_eq!(second.sent, 970);
    let bodies = world.drain_bodies();
    assert_eq!(bodies.len(), 1000);
    assert_eq!(bodies.values().sum::<usize>(), 1000 + (summary.sent - 30) as usize);
}

#[test]
fn a_run_killed_between_batches_has_recorded_all_confirmed_lines() {
    for millis in [0, 999, 1000, 1001, 4500, 9000] {
        let world = World { rate: NonZeroU32::new(10), ..World::new() };
        let mut first = journal();
        let input = messages(LINES);
        let sender = FileSender {
            queue: &world.queue,
            clock: &world.clock,
            rate: world.rate,
            watcher: &world.reported,
        };
        let steps = stream::iter(LineRules::default().read_steps(input.as_bytes()));
        world.clock.block_on(async {
            // The send is dropped at this point, as if the process had been killed.
            let dies = world.clock.sleep(Duration::from_millis(millis));
            let sending = sender.send(steps, Some(&mut first), pending());
            futures_util::future::select(Box::pin(dies), Box::pin(sending)).await;
        });
        let rules = LineRules { confirmed: read_confirmed_lines(first), ..LineRules::default() };
        let second = world.send_with_rules(&input, rules, None::<&mut SendJournal<Vec<u8>>>, pending());
        assert_eq!(second.sent + second.sent_before, LINES as u64);
        let bodies = world.drain_bodies();
        assert_eq!(bodies.len(), LINES);
        assert!(bodies.values().sum::<usize>() <= LINES + 10, "{millis}: at most one batch is sent again");
    }
}
