use std::cell::Cell;
use std::future::{pending, ready};
use std::path::Path;
use std::time::Duration;

use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Attribute, Content, OutgoingMessage, Timestamp};
use redeliver_core::ports::QueueDepth as _;
use redeliver_core::ports::{QueueSender as _, QueueService as _, QueueSettings, ReceiveOptions};
use redeliver_dead_letters::{Filter, FilterError, ReaderError};
use redeliver_embedded::{
    EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction,
    VirtualClock,
};

use super::*;
use crate::audit::examples::{context, nth_message_id, retried_body};
use crate::audit::view::{JsonLinesView, JsonView};

struct World {
    clock: VirtualClock,
    sqs: EmbeddedSqs,
    queue: EmbeddedQueue,
}

/// Returns a queue with messages 1..=`count`.
fn world(count: u32) -> World {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 7);
    let queue = clock.block_on(async {
        let queue = sqs.create_queue("final-dlq", &QueueSettings::default()).await.unwrap();
        let content = |number| Content { body: retried_body(number, 2, &[0, 1]), ..Content::default() };
        let messages: Vec<_> =
            (1..=count).map(|number| OutgoingMessage::new(content(number)).unwrap()).collect();
        for batch in pack_batches(&messages) {
            assert!(queue.send_batch(batch).await.iter().all(Result::is_ok));
        }
        queue
    });
    World { clock, sqs, queue }
}

impl World {
    fn audit(&self, pick: Pick, view: Box<dyn View>) -> (Result<AuditResult, CommandFailure>, String) {
        self.audit_until(pick, view, None, pending())
    }

    fn audit_until(
        &self,
        pick: Pick,
        view: Box<dyn View>,
        save: Option<&Path>,
        stop: impl Future<Output = ()>,
    ) -> (Result<AuditResult, CommandFailure>, String) {
        let mut output = Vec::new();
        let save = save.map(|path| SaveFile::create(path, None, None).unwrap());
        let auditor = Auditor {
            pick,
            max: u64::MAX,
            tally: AuditTally::new(context()),
            save,
            view,
            output: &mut output,
        };
        let audited = self.clock.block_on(auditor.run_audit(&self.queue, &self.clock, stop, |_| {}));
        (audited, String::from_utf8(output).unwrap())
    }

    /// Returns the numbers of visible and in-flight messages.
    fn depth(&self) -> (u64, u64) {
        let depth = self.clock.block_on(self.queue.depth()).unwrap();
        (depth.visible, depth.in_flight)
    }
}

fn pick_by_filter(filter: &str) -> Pick {
    Pick::new(None, Vec::new(), Some(Filter::for_dead_letters(filter).unwrap()))
}

#[test]
fn an_audit_sees_every_message_and_consumes_none() {
    let world = world(345);
    let (audited, output) = world.audit(Pick::default(), Box::new(JsonView));
    let report = audited.unwrap().report;
    assert_eq!((report.total, report.complete), (345, true));
    assert_eq!(output, report.to_json());
    assert_eq!(world.depth(), (345, 0));
}

#[test]
fn a_filter_does_not_reduce_the_coverage() {
    let world = world(30);
    let (audited, output) =
        world.audit(pick_by_filter(r#".body.data.card == "secret-7""#), Box::new(JsonLinesView));
    let report = audited.unwrap().report;
    assert_eq!((report.total, report.coverage.seen), (1, 30));
    assert!(output.starts_with(&format!(r#"{{"message_id":"{}","#, nth_message_id(7))), "{output}");
    assert_eq!(output.lines().count(), 1);
}

#[test]
fn a_group_is_compared_with_unselected_messages_after_a_complete_read() {
    let world = world(3);
    let attributes = [("ErrorType", "NON_RETRYABLE_ERROR"), ("ErrorDetails", "no order")];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), Attribute::string(value)));
    let other =
        Content { body: retried_body(4, 2, &[0, 1]), attributes: attributes.into(), ..Content::default() };
    let sent = [OutgoingMessage::new(other).unwrap()];
    world.clock.block_on(async {
        for batch in pack_batches(&sent) {
            assert!(world.queue.send_batch(batch).await.iter().all(Result::is_ok));
        }
    });
    let (audited, _) = world.audit(Pick::default(), Box::new(JsonView));
    let report = audited.unwrap().report;
    assert_eq!(report.comparison, None, "no group was selected");
    let group = report.groups.iter().find(|group| group.count == 3).unwrap().fingerprint.clone();
    let compared = |max| {
        let pick = Pick::new(Some(group.clone()), Vec::new(), None);
        let tally = AuditTally::new(context()).with_comparison(pick.group.as_deref());
        let mut output = Vec::new();
        let auditor = Auditor { pick, max, tally, save: None, view: Box::new(JsonView), output: &mut output };
        let audited = auditor.run_audit(&world.queue, &world.clock, pending(), |_| {});
        world.clock.block_on(audited).unwrap().report.comparison
    };
    let comparison = compared(u64::MAX).unwrap();
    assert_eq!((comparison.fingerprint.as_str(), comparison.count, comparison.others), (&*group, 3, 1));
    assert_eq!(compared(1), None, "most messages were not read");
    let receive = ReceiveOptions { max_messages: 1, wait: Duration::ZERO, visibility: None };
    assert_eq!(world.clock.block_on(world.queue.receive(receive)).unwrap().len(), 1);
    assert_eq!(compared(u64::MAX), None, "another reader holds a message");
}

#[test]
fn filter_errors_are_counted_and_end_the_audit_if_all_messages_fail() {
    let world = world(30);
    let failing = r#"if .body.data.card == "secret-7" then .body.data.card + {} else true end"#;
    let (audited, _) = world.audit(pick_by_filter(failing), Box::new(JsonView));
    let report = audited.unwrap().report;
    assert_eq!((report.total, report.not_judged.messages, report.complete), (29, 1, true));
    assert_eq!(report.not_judged.reason.as_deref(), Some("cannot calculate with two values"));
    for wrong in [".body.data.card", ".body.data.card + {}"] {
        let (audited, _) = world.audit(pick_by_filter(wrong), Box::new(JsonView));
        assert!(audited.unwrap_err().is::<FilterError>(), "{wrong}");
        assert_eq!(world.depth(), (30, 0), "all messages are released");
    }
}

#[test]
fn a_failing_queue_ends_the_audit_and_all_messages_are_released() {
    let world = world(100);
    let rule = FaultRule {
        action: SqsAction::ReceiveMessage,
        queue: None,
        scope: FaultScope::Request,
        when: FaultTrigger::Numbers(vec![3]),
        injection: Injection::Sender,
    };
    world.sqs.set_faults(FaultPlan::new(1).with_rule(rule));
    let (audited, _) = world.audit(Pick::default(), Box::new(JsonView));
    assert!(audited.unwrap_err().is::<ReaderError>());
    assert_eq!(world.depth(), (100, 0));
}

#[test]
fn an_interrupted_audit_is_reported_and_releases_all_messages() {
    let world = world(100);
    let (audited, _) = world.audit_until(Pick::default(), Box::new(JsonView), None, ready(()));
    let report = audited.unwrap().report;
    assert_eq!((report.total, report.coverage.seen, report.coverage.approximate), (0, 0, 100));
    assert!(!report.complete && report.interrupted);
    assert_eq!(world.depth(), (100, 0));
}

/// A view whose output is closed after the first line.
struct ClosingView(Cell<bool>);

impl View for ClosingView {
    fn write_record(&mut self, _: &DeadLetterRecord, _: &mut dyn Write) -> io::Result<()> {
        match self.0.replace(true) {
            false => Ok(()),
            true => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

#[test]
fn a_closed_output_pipe_ends_the_audit_without_an_error() {
    let world = world(100);
    let (audited, _) = world.audit(Pick::default(), Box::new(ClosingView(Cell::new(false))));
    let audited = audited.unwrap();
    assert!(audited.output_closed && !audited.report.interrupted && !audited.report.complete, "{audited:?}");
    assert_eq!(world.depth(), (100, 0));
}

#[test]
fn a_saved_file_contains_each_selected_message() {
    let world = world(25);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.jsonl");
    let (audited, _) = world.audit_until(Pick::default(), Box::new(JsonView), Some(&path), pending());
    assert_eq!(audited.unwrap().report.total, 25);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut bodies: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<redeliver_dead_letters::ArchivedMessage>(line).unwrap().body)
        .collect();
    let mut expected: Vec<_> = (1..=25).map(|number| retried_body(number, 2, &[0, 1])).collect();
    bodies.sort();
    expected.sort();
    assert_eq!(bodies, expected);
}

#[test]
fn an_audit_finds_a_message_by_its_id() {
    let world = world(30);
    let (audited, output) = world.audit(Pick::with_id(&nth_message_id(9)), Box::new(JsonLinesView));
    assert_eq!((audited.unwrap().report.total, output.lines().count()), (1, 1));
}

#[test]
fn an_unknown_message_id_is_reported_as_missing() {
    let world = world(30);
    let (audited, output) = world.audit(Pick::with_id("nope"), Box::new(JsonLinesView));
    let audited = audited.unwrap();
    assert_eq!((audited.report.total, output.as_str()), (0, ""));
    assert_eq!(audited.missing, ["no message with the id nope was found"]);
    let (interrupted, _) = world.audit_until(Pick::with_id("nope"), Box::new(JsonLinesView), None, ready(()));
    assert_eq!(interrupted.unwrap().missing, [""; 0], "nothing was read");
}

#[test]
fn an_audit_stops_at_its_maximum_and_releases_all_messages() {
    let world = world(100);
    let mut output = Vec::new();
    let auditor = Auditor {
        pick: Pick::default(),
        max: 7,
        tally: AuditTally::new(context()),
        save: None,
        view: Box::new(JsonLinesView),
        output: &mut output,
    };
    let audited = world.clock.block_on(auditor.run_audit(&world.queue, &world.clock, pending(), |_| {}));
    let report = audited.unwrap().report;
    assert_eq!((report.total, report.max_reached, report.interrupted), (7, true, false));
    assert_eq!(String::from_utf8(output).unwrap().lines().count(), 7);
    assert_eq!(world.depth(), (100, 0));
}
