//! Redrives of dead letters from a file.

use std::cell::Cell;
use std::io::Write as _;

use super::*;
use crate::{ArchivedMessage, FileQueue};

/// Creates a file with these dead letters in archive format, and one invalid line.
fn file_queue(messages: &[Content]) -> FileQueue {
    let world = World::new(messages.to_vec());
    let mut file = tempfile::tempfile().unwrap();
    for message in world.take(&world.dlq) {
        writeln!(file, "{}", serde_json::to_string(&ArchivedMessage::new(&message)).unwrap()).unwrap();
    }
    writeln!(file, "no dead letter").unwrap();
    FileQueue::open(file, "dead.jsonl", "file:/dead.jsonl", Timestamp::UNIX_EPOCH).unwrap()
}

fn redrive_file<'a>(
    file: &'a FileQueue,
    world: &'a World,
    plan: &'a RedrivePlan,
) -> RedriveJob<'a, FileQueue, EmbeddedQueue, VirtualClock> {
    let RedriveJob { source, clock, interrupted, progress, .. } = world.redrive(plan);
    let limits = RedriveLimits { watch: Duration::ZERO, ..NO_LIMITS };
    RedriveJob { dlq: file, source, clock, plan, can_come_back: false, limits, interrupted, progress }
}

#[test]
fn repeated_redrives_of_a_file_send_each_message_once() {
    let world = World::new(Vec::new());
    let messages: Vec<_> = (0..120).map(dead_letter).collect();
    let plan = unfiltered_plan();
    for (run, sent) in [(1, 120), (2, 0)] {
        let file = file_queue(&messages);
        let report =
            world.clock.block_on(redrive_file(&file, &world, &plan).apply(&mut world.journal())).unwrap();
        assert_eq!((report.sent, report.deleted_only), (sent, 120 - sent), "run {run}");
        assert_eq!((report.not_deleted, report.possible_copies, report.staying_count()), (0, 0, 0));
        assert_eq!(report.coverage.unwrap().unreadable, 1);
    }
    assert_eq!(world.take(&world.source).len(), 120);
}

/// Another selection uses the same journal: each dead letter of a file is sent once.
#[test]
fn a_message_sent_for_another_selection_is_neither_resent_nor_missing() {
    let world = World::new(Vec::new());
    let messages = [dead_letter(0), dead_letter(1)];
    let plan = unfiltered_plan();
    let first = file_queue(&messages);
    world.clock.block_on(redrive_file(&first, &world, &plan).apply(&mut world.journal())).unwrap();
    let ids = [id(1), "absent".to_owned()];
    let selecting = RedrivePlan { pick: Pick::new(None, ids.to_vec(), None), ..unfiltered_plan() };
    let second = file_queue(&messages);
    let report =
        world.clock.block_on(redrive_file(&second, &world, &selecting).apply(&mut world.journal())).unwrap();
    assert_eq!((report.sent, report.deleted_only), (0, 2));
    assert_eq!(selecting.pick.describe_missing(), ["no message with the id absent was found"]);
}

/// A file with the archives from several days contains a message twice if it was sent back and failed again.
#[test]
fn a_later_generation_in_a_file_does_not_count_as_a_returned_message() {
    let world = World::new(Vec::new());
    let mut messages: Vec<_> = (0..120).map(dead_letter).collect();
    messages.push(dead_letter_in_generation(0, r#""redrive_generation":1,"#));
    let file = file_queue(&messages);
    let plan = unfiltered_plan();
    let report =
        world.clock.block_on(redrive_file(&file, &world, &plan).apply(&mut world.journal())).unwrap();
    assert_eq!((report.sent, report.returned_count(), report.early_end), (121, 0, None));
}

#[test]
fn an_interrupted_redrive_of_a_file_is_finished_by_the_next_run() {
    let world = World::new(Vec::new());
    let messages: Vec<_> = (0..250).map(dead_letter).collect();
    let plan = unfiltered_plan();
    let is_under_way = Cell::new(false);
    let interrupted = || is_under_way.get();
    let progress = |progress| is_under_way.set(is_under_way.get() || progress == RedriveProgress::Sent(100));
    let first = file_queue(&messages);
    let run =
        RedriveJob { interrupted: &interrupted, progress: &progress, ..redrive_file(&first, &world, &plan) };
    let report = world.clock.block_on(run.apply(&mut world.journal())).unwrap();
    assert_eq!((report.sent, report.early_end), (100, Some(EarlyEnd::Interrupted)));
    let second = file_queue(&messages);
    let report =
        world.clock.block_on(redrive_file(&second, &world, &plan).apply(&mut world.journal())).unwrap();
    assert_eq!((report.sent, report.deleted_only, world.depths().1), (150, 100, 250));
}

#[test]
fn a_redrive_into_a_file_writes_one_body_per_line() {
    let world = World::new(Vec::new());
    let bare_content = |body: &str| Content { body: body.to_owned(), ..Content::default() };
    let body = format!("{{\"metadata\":{{\"message_id\":\"{}\"}},\r\n \"data\":{{\"n\":1.50}}}}", id(1));
    let (dead_letter, broken) =
        (dead_letter(2), format!(r#"{{"metadata":{{"message_id":"{}"}},"data":{{}}"#, id(3)));
    let file = file_queue(&[bare_content(&body), dead_letter, bare_content(&broken)]);
    let edit = BodyEdit::new(r#"if .body | type == "string" then .body = .body + "}" else . end"#).unwrap();
    let plan = RedrivePlan { edit: Some(edit), into_lines: true, ..unfiltered_plan() };
    for _ in 0..2 {
        let mut output = Vec::new();
        let planned = world.clock.block_on(redrive_file(&file, &world, &plan).dry_run()).unwrap();
        let report =
            world.clock.block_on(redrive_file(&file, &world, &plan).write_lines(None, &mut output)).unwrap();
        assert_eq!((planned.planned, report.sent, report.edited, report.staying_count()), (2, 2, 1, 1));
        let why = "a line of a file has no place for its attributes or its message group: send it to a queue with --to";
        assert_eq!(report.to_json()["staying"][0]["reason"], why);
        let first = format!(
            r#"{{"metadata":{{"message_id":"{}","redrive_generation":1}},   "data":{{"n":1.50}}}}"#,
            id(1)
        );
        let second =
            format!(r#"{{"metadata":{{"message_id":"{}","redrive_generation":1}},"data":{{}}}}"#, id(3));
        let mut lines: Vec<_> = std::str::from_utf8(&output).unwrap().lines().collect();
        lines.sort_unstable();
        let mut expected = [first, second];
        expected.sort();
        assert_eq!(lines, expected);
    }
}

#[test]
fn a_message_with_a_group_is_not_written_as_a_line() {
    let world = World::new(Vec::new());
    let grouped = Content {
        attributes: Attributes::new(),
        message_group_id: Some("tenant-1".to_owned()),
        ..dead_letter(1)
    };
    let (file, plan) = (file_queue(&[grouped]), RedrivePlan { into_lines: true, ..unfiltered_plan() });
    let mut output = Vec::new();
    let report =
        world.clock.block_on(redrive_file(&file, &world, &plan).write_lines(None, &mut output)).unwrap();
    assert_eq!((report.sent, report.staying_count(), output.len()), (0, 1, 0));
}

/// `audit` and `purge` reject such a filter as well.
#[test]
fn a_filter_that_fails_on_every_message_ends_the_redrive_at_once() {
    let world = World::new((0..3).map(dead_letter).collect());
    let file = file_queue(&[dead_letter(0), dead_letter(1)]);
    let plan = || RedrivePlan {
        pick: Pick::with_filter(Filter::for_dead_letters(".error_type + 1 > 0").unwrap()),
        into_lines: true,
        ..unfiltered_plan()
    };
    let (planned, applied, written) = (plan(), plan(), plan());
    let mut output = Vec::new();
    let outcomes = [
        world.clock.block_on(world.redrive(&planned).dry_run()),
        world.apply(&applied),
        world.clock.block_on(redrive_file(&file, &world, &written).write_lines(None, &mut output)),
    ];
    for outcome in outcomes {
        let error = outcome.unwrap_err().to_string();
        assert!(error.starts_with("the filter `.error_type + 1 > 0` fails on message "), "{error}");
    }
    assert_eq!((world.depths(), output.len()), ((3, 0), 0));
}
