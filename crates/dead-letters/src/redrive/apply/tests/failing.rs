//! A run that cannot continue reports the work done so far.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};

use super::*;
use crate::ReaderError;

#[test]
fn a_redrive_whose_dlq_fails_midway_still_reports_its_sends() {
    let world = World::new((0..400).map(dead_letter).collect());
    // The credentials expire during the first pass.
    world.inject_fault(
        SqsAction::ReceiveMessage,
        FaultScope::Request,
        FaultTrigger::Numbers((12..=5000).collect()),
        Injection::Sender,
    );
    let report = world.apply(&unfiltered_plan()).unwrap();
    assert!(report.sent > 0, "{report:?}");
    assert!(
        matches!(&report.early_end, Some(EarlyEnd::Failed(error)) if error.contains("dlq")),
        "{report:?}"
    );
    assert_eq!(
        (RedriveOutcome::from_report(&report, u64::MAX), report.to_json()["complete"].as_bool()),
        (RedriveOutcome::Failed, Some(false))
    );
    world.sqs.set_faults(FaultPlan::new(3));
    world.clock.block_on(world.clock.sleep(Duration::from_secs(120)));
    let rest = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!(
        (report.sent + rest.sent, RedriveOutcome::from_report(&rest, u64::MAX)),
        (400, RedriveOutcome::Done),
        "{rest:?}"
    );
    assert_eq!(world.depths(), (0, 400));
}

#[test]
fn a_redrive_that_fails_before_its_first_send_is_an_error() {
    let world = World::new((0..3).map(dead_letter).collect());
    world.inject_fault(
        SqsAction::ReceiveMessage,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Sender,
    );
    assert!(world.apply(&unfiltered_plan()).unwrap_err().is::<ReaderError>());
}

#[test]
fn a_redrive_without_permission_to_send_stops_after_a_hundred_attempts() {
    for count in [100, 500] {
        let mut world = World::new((0..count).map(dead_letter).collect());
        world.limits.watch = Duration::ZERO;
        world.inject_fault(
            SqsAction::SendMessageBatch,
            FaultScope::Entry,
            FaultTrigger::Chance(1.0),
            Injection::Sender,
        );
        let report = world.apply(&unfiltered_plan()).unwrap();
        assert_eq!((report.sent, report.staying_count()), (0, 100), "{report:?}");
        assert_eq!(
            (RedriveOutcome::from_report(&report, u64::MAX), &report.to_json()["complete"]),
            (RedriveOutcome::Failed, &false.into())
        );
        let Some(EarlyEnd::Failed(why)) = report.early_end else { panic!("{report:?}") };
        assert!(why.starts_with("100 sends in a row failed, the last one with "), "{why}");
        assert_eq!(world.depths(), (count as u64, 0));
    }
}

#[test]
fn scattered_refused_sends_do_not_end_a_redrive() {
    let mut world = World::new((0..300).map(dead_letter).collect());
    world.limits.watch = Duration::ZERO;
    let refused = FaultTrigger::Numbers((1..=300).filter(|number| number % 50 != 0).collect());
    world.inject_fault(SqsAction::SendMessageBatch, FaultScope::Entry, refused, Injection::Sender);
    let report = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((report.sent, report.early_end, world.depths()), (6, None, (294, 6)));
}

/// Moves the file position to the maximum file size, so that each write fails as it would on a full disk.
fn fill_the_disk(mut file: &File) {
    let (mut can, mut cannot) = (0, 1 << 63);
    while cannot - can > 1 {
        let middle = can + (cannot - can) / 2;
        match file.seek(SeekFrom::Start(middle)) {
            Ok(_) => can = middle,
            Err(_) => cannot = middle,
        }
    }
    file.seek(SeekFrom::Start(can)).unwrap();
}

#[test]
fn without_a_journal_entry_no_message_is_sent_or_deleted() {
    let mut world = World::new((0..150).map(dead_letter).collect());
    world.limits.watch = Duration::ZERO;
    let plan = unfiltered_plan();
    {
        let mut journal = world.journal();
        let file = journal.file();
        let progress = |progress| {
            if matches!(progress, RedriveProgress::Sent(_)) {
                fill_the_disk(&file);
            }
        };
        let redrive = RedriveJob { progress: &progress, ..world.redrive(&plan) };
        let report = world.clock.block_on(redrive.apply(&mut journal)).unwrap();
        assert!(
            matches!(&report.early_end, Some(EarlyEnd::Failed(error)) if error.contains("the journal")),
            "{report:?}"
        );
        assert_eq!((report.sent, world.depths()), (10, (150, 10)));
    }
    world.clock.block_on(world.clock.sleep(Duration::from_secs(120)));
    let rest = world.apply(&plan).unwrap();
    // Each of the ten intents may have been sent twice.
    assert_eq!((rest.sent, rest.possible_copies, world.depths()), (150, 20, (0, 160)));
}
