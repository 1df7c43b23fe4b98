//! Sends to an in-memory SQS, in virtual time.

mod backup;
mod crashes;
mod world;

use std::future::pending;
use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::ExitCode;
use crate::message_file::LineFormat;
use futures_util::stream;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock as _;
use redeliver_embedded::{FaultScope, FaultTrigger, Injection};

use super::confirmed::ConfirmedLines;
use super::journal::SendJournal;
use super::reader::LineRules;
use super::sender::FileSender;
use super::summary::StopReason;
use super::*;
use world::{World, journal, message, messages};

fn read_confirmed_lines(journal: SendJournal<Vec<u8>>) -> ConfirmedLines {
    journal::read_journal(&*journal.into_output()).unwrap().confirmed
}

#[test]
fn valid_lines_fill_batches_and_invalid_ones_are_reported_by_number() {
    let world = World::new();
    let input = format!("{}not JSON\n{{\"data\":{{}}}}\n\n{}\n", messages(20), message(24));
    let mut journal = journal();
    let summary = world.send(&input, &mut journal);
    assert_eq!(summary, Summary { sent: 21, invalid: 3, ..Summary::default() });
    assert_eq!(summary.exit_code(), ExitCode::PartlyDone);
    assert_eq!(world.sqs.request_counts()["SendMessageBatch"], 3);
    let problems = world.take_problems();
    assert!(problems[0].starts_with("21: INVALID_MESSAGE_FORMAT "), "{problems:?}");
    assert!(problems[1].starts_with("22: INVALID_MESSAGE_SCHEMA "), "{problems:?}");
    assert_eq!(problems[2], "23: the body is empty; SQS requires at least one character");
    let confirmed = read_confirmed_lines(journal);
    assert!((1..=20).all(|number| confirmed.contains(number)) && confirmed.contains(24));
    assert!(!(21..=23).any(|number| confirmed.contains(number)));
    assert_eq!(world.drain_bodies().len(), 21);
}

#[test]
fn batches_keep_to_1_mib_and_messages_to_the_queues_limit() {
    let world = World::new();
    let large = |number| message(number).replace("{}", &format!(r#"{{"x":"{}"}}"#, "x".repeat(400_000)));
    let input: String = (1..=5).map(|number| large(number) + "\n").collect();
    assert_eq!(world.send(&input, &mut journal()).sent, 5);
    assert_eq!(world.sqs.request_counts()["SendMessageBatch"], 3);
    let rules = LineRules { largest: 262_144, ..LineRules::default() };
    let summary = world.send_with_rules(&input, rules, None::<&mut SendJournal<Vec<u8>>>, pending());
    assert_eq!((summary.sent, summary.invalid), (0, 5));
    assert_eq!(world.take_problems()[0], "1: 400082 bytes; the queue's limit is 262144");
}

#[test]
fn throttled_requests_and_lost_responses_are_retried_and_can_leave_a_copy() {
    for (injection, failing, copies) in [
        (Injection::Throttled, FaultTrigger::Chance(0.3), false),
        (Injection::LostResponse, FaultTrigger::Numbers(vec![3, 40, 41]), true),
    ] {
        let world = World::new();
        world.inject_fault(FaultScope::Entry, failing, injection);
        let summary = world.send(&messages(500), &mut journal());
        assert_eq!((summary.sent, summary.exit_code()), (500, ExitCode::Done), "{injection:?}");
        let bodies = world.drain_bodies();
        assert_eq!(bodies.len(), 500);
        assert_eq!(bodies.values().any(|count| *count > 1), copies, "{injection:?}");
    }
}

#[test]
fn a_refused_entry_is_reported_and_sent_by_the_next_run() {
    let world = World::new();
    world.inject_fault(FaultScope::Entry, FaultTrigger::Numbers(vec![3, 15]), Injection::Sender);
    let mut journal = journal();
    let summary = world.send(&messages(30), &mut journal);
    assert_eq!((summary.sent, summary.unconfirmed, summary.exit_code()), (28, 2, ExitCode::PartlyDone));
    let refused = "not confirmed by SQS: refused (InvalidParameterValue)";
    assert_eq!(world.take_problems(), [format!("3: {refused}"), format!("15: {refused}")]);
    let rules = LineRules { confirmed: read_confirmed_lines(journal), ..LineRules::default() };
    let summary = world.send_with_rules(&messages(30), rules, None::<&mut SendJournal<Vec<u8>>>, pending());
    assert_eq!((summary.sent, summary.sent_before, summary.exit_code()), (2, 28, ExitCode::Done));
    assert!(world.drain_bodies().values().all(|count| *count == 1));
}

#[test]
fn a_queue_that_confirms_nothing_stops_the_send() {
    let world = World::new();
    world.inject_fault(FaultScope::Request, FaultTrigger::Chance(1.0), Injection::Sender);
    let summary = world.send(&messages(10_000), &mut journal());
    assert_eq!(summary.stopped, Some(StopReason::Refused("refused (InvalidParameterValue)".to_owned())));
    assert_eq!((summary.sent, summary.exit_code()), (0, ExitCode::Failed));
    assert!(summary.unconfirmed < 200, "{summary:?}");
}

#[test]
fn a_send_keeps_to_its_rate() {
    let world = World { rate: NonZeroU32::new(50), ..World::new() };
    assert_eq!(world.send(&messages(1000), &mut journal()).sent, 1000);
    let seconds = (world.clock.now() - Timestamp::UNIX_EPOCH).as_seconds_f64();
    assert!((19.0..20.0).contains(&seconds), "{seconds}");
}

#[test]
fn an_interrupt_finishes_the_batches_in_flight() {
    let world = World { rate: NonZeroU32::new(10), ..World::new() };
    let mut journal = journal();
    let stop = world.clock.sleep(Duration::from_millis(2500));
    let summary = world.send_with_rules(&messages(1000), LineRules::default(), Some(&mut journal), stop);
    assert_eq!((summary.sent, summary.exit_code()), (30, ExitCode::Interrupted));
    let confirmed = read_confirmed_lines(journal);
    assert!(confirmed.contains(30) && !confirmed.contains(31));
    assert_eq!(world.drain_bodies().len(), 30);
}

#[test]
fn an_input_that_becomes_unreadable_stops_the_send() {
    struct BrokenReader;
    impl io::Read for BrokenReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    let world = World::new();
    let sender =
        FileSender { queue: &world.queue, clock: &world.clock, rate: None, watcher: &world.reported };
    let three = messages(3);
    let input = io::Read::chain(three.as_bytes(), BrokenReader);
    let steps: Vec<_> = LineRules::default().read_steps(io::BufReader::new(input)).collect();
    let none = None::<&mut SendJournal<Vec<u8>>>;
    let summary = world.clock.block_on(sender.send(stream::iter(steps), none, pending()));
    assert_eq!((summary.sent, summary.exit_code()), (3, ExitCode::Failed));
    assert!(matches!(summary.stopped, Some(StopReason::Unreadable(_))), "{summary:?}");
    // A reader thread that dies does not report the end of the input.
    let steps: Vec<_> = LineRules::default().read_steps(messages(3).as_bytes()).take(3).collect();
    let none = None::<&mut SendJournal<Vec<u8>>>;
    let summary = world.clock.block_on(sender.send(stream::iter(steps), none, pending()));
    assert_eq!((summary.sent, summary.exit_code()), (3, ExitCode::Failed));
}
