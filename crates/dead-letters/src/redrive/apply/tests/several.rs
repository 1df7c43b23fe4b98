//! Several requests run concurrently.

use std::cell::Cell;
use std::collections::BTreeSet;

use super::runs::{count_entries, journal_lines};
use super::*;

const MESSAGES: u64 = 300;

/// Creates a redrive without a pilot, so that all messages are sent immediately.
fn world() -> World {
    let mut world = World::new((0..MESSAGES as usize).map(dead_letter).collect());
    world.limits.watch = Duration::ZERO;
    world
}

impl World {
    /// Runs the redrive on queues that take ten milliseconds per response.
    fn apply_slowly(
        &self,
        interrupted: &dyn Fn() -> bool,
        progress: &dyn Fn(RedriveProgress),
    ) -> RedriveReport {
        let plan = unfiltered_plan();
        let (dlq, source) = (slow_queue(&self.dlq, &self.clock), slow_queue(&self.source, &self.clock));
        let RedriveJob { clock, can_come_back, limits, .. } = self.redrive(&plan);
        let redrive = RedriveJob {
            dlq: &dlq,
            source: &source,
            clock,
            plan: &plan,
            can_come_back,
            limits,
            interrupted,
            progress,
        };
        clock.block_on(redrive.apply(&mut self.journal())).unwrap()
    }

    /// Returns the numbers of dead letters with an intent but no outcome in the journal, and of those sent but not yet
    /// deleted.
    fn count_in_progress(&self) -> (u64, u64) {
        let lines = journal_lines(self);
        let (intents, sent) = (count_entries(&lines, "intent"), count_entries(&lines, "sent"));
        (intents - sent - count_entries(&lines, "not_sent"), sent - count_entries(&lines, "deleted"))
    }
}

#[test]
fn a_killed_redrive_leaves_at_most_a_hundred_open_intents() {
    let (mut deaths, mut most, mut copies_seen) = (0, 0, 0);
    for polls in (1..).step_by(7) {
        let world = world();
        let died = world.kill_after_polls(&unfiltered_plan(), polls);
        let (intended, in_both) = world.count_in_progress();
        assert!(intended <= 100 && intended + in_both <= 160, "{polls}: {intended} {in_both}");
        most = most.max(intended);
        let report = world.apply(&unfiltered_plan()).unwrap();
        assert_eq!(world.depths().0, 0, "{polls}: {report:?}");
        let sent = world.take(&world.source);
        let ids: BTreeSet<_> = sent.iter().map(|message| message.body.split('"').nth(5).unwrap()).collect();
        let copies = sent.len() as u64 - MESSAGES;
        assert_eq!(ids.len() as u64, MESSAGES, "{polls}: something is lost");
        // A send without an outcome may have been tried twice, and is repeated once more.
        assert!(copies <= intended && report.possible_copies == 2 * intended, "{polls}: {copies} {report:?}");
        copies_seen += copies;
        if !died {
            break;
        }
        deaths += 1;
    }
    assert_eq!(most, 100);
    assert!(deaths > 20 && copies_seen > 0, "{deaths} deaths, {copies_seen} copies: the test proves nothing");
}

#[test]
fn a_rejected_send_request_leaves_only_its_own_ten_messages_unsent() {
    let world = world();
    world.inject_fault(
        SqsAction::SendMessageBatch,
        FaultScope::Entry,
        FaultTrigger::Numbers((11..=20).collect()),
        Injection::Sender,
    );
    let report = world.apply_slowly(&|| false, &|_| {});
    assert_eq!((report.sent, report.staying_count(), world.depths()), (290, 10, (10, 290)));
    assert_eq!(world.count_in_progress(), (0, 0));
    let next = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((next.sent, next.possible_copies, world.depths()), (10, 0, (0, 300)));
}

#[test]
fn a_redrive_never_exceeds_its_maximum_even_if_sends_fail() {
    let mut world = world();
    world.limits.max = 95;
    let refused = FaultTrigger::Numbers((1..=200).step_by(3).collect());
    world.inject_fault(SqsAction::SendMessageBatch, FaultScope::Entry, refused, Injection::Sender);
    let report = world.apply_slowly(&|| false, &|_| {});
    assert_eq!((report.sent, world.depths()), (95, (205, 95)));
}

#[test]
fn an_interrupt_waits_only_for_requests_in_progress() {
    let world = world();
    let is_interrupted = Cell::new(None);
    let progress = |progress| {
        if progress == RedriveProgress::Sent(50) {
            is_interrupted.set(Some(world.clock.now()));
        }
    };
    let report = world.apply_slowly(&|| is_interrupted.get().is_some(), &progress);
    assert_eq!((report.sent, report.early_end), (140, Some(EarlyEnd::Interrupted)));
    assert_eq!((world.depths(), world.count_in_progress()), ((160, 140), (0, 0)));
}

#[test]
fn requests_in_progress_when_the_dlq_fails_are_finished_and_journaled() {
    let world = world();
    let expired = FaultTrigger::Numbers((12..=5000).collect());
    world.inject_fault(SqsAction::ReceiveMessage, FaultScope::Request, expired, Injection::Sender);
    let report = world.apply_slowly(&|| false, &|_| {});
    assert!(matches!(report.early_end, Some(EarlyEnd::Failed(_))), "{report:?}");
    assert_eq!((report.sent, world.depths(), world.count_in_progress()), (100, (200, 100), (0, 0)));
}

#[test]
fn a_redrive_of_three_hundred_messages_runs_requests_in_parallel() {
    let world = world();
    let started = world.clock.now();
    let last = Cell::new(started);
    let report = world.apply_slowly(&|| false, &|_| last.set(world.clock.now()));
    assert_eq!(report.sent, 300);
    assert_eq!((last.get() - started).num_milliseconds(), 70);
}
