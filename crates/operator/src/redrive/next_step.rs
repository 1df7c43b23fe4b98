//! The sentences shown to the user before and after a run.

use redeliver_dead_letters::redrive::{RedriveOutcome, RedriveReport};

use crate::sentences::{NotDeletedReason, not_deleted_reason};
use crate::terminal::units::{format_count, group_digits};

/// The wording of advice on continuing a run.
#[derive(Clone, Copy, Debug)]
pub struct ContinuationWording {
    /// An instruction to start the run again, in the imperative.
    pub again: &'static str,
    /// The option for continuing even if messages fail again.
    pub anyway: &'static str,
}

/// Returns advice on what to do after a run. `None` if nothing is left to do, or if the report already contains the
/// advice.
pub fn next_step(
    report: &RedriveReport,
    ending: RedriveOutcome,
    with: ContinuationWording,
) -> Option<String> {
    let ContinuationWording { again, anyway } = with;
    let [back, sent] = [report.returned_count(), report.sent].map(|count| format_count(count, "message"));
    match ending {
        RedriveOutcome::Done => None,
        RedriveOutcome::Left => {
            (report.returned_count() > 0).then(|| format!("{back} came straight back and stay"))
        }
        // The report already contains advice on full groups.
        RedriveOutcome::NotSeen if report.coverage.is_some_and(|coverage| coverage.full_groups > 0) => None,
        RedriveOutcome::NotSeen => Some(format!(
            "not all of the DLQ was read: another program is or was reading it; messages received by a killed run or an \
             audit become visible again within two minutes; then {again}"
        )),
        RedriveOutcome::Failed => Some(format!("{again}: it continues where this run ended")),
        RedriveOutcome::Interrupted => Some(format!("interrupted: {again} to finish")),
        RedriveOutcome::Stopped => {
            let back = group_digits(report.returned_count());
            let waiting = group_digits(report.pilot_result.and_then(|watched| watched.waiting).unwrap_or(0));
            Some(format!(
                "stopped: of {sent} that this run sent, {back} came straight back, and about {waiting} wait for a retry: \
                 the cause remains. Fix it and {again}, or continue anyway with {anyway}"
            ))
        }
        RedriveOutcome::NotDeleted => {
            let count = format_count(report.not_deleted, "message");
            let NotDeletedReason { why, remedy } = not_deleted_reason(report);
            Some(format!(
                "sent, NOT deleted: {count} of the DLQ are also in the source queue. {why} Do not send them back in any \
                 other way, or from another machine: that creates copies. {remedy}, then {again}: it deletes them \
                 according to its journal, and sends the rest"
            ))
        }
    }
}

/// Describes why messages remain, one line per reason. `from_queue` is false for a file.
pub fn describe_remaining_messages(report: &RedriveReport, from_queue: bool) -> impl Iterator<Item = String> {
    let left = if from_queue { "left in the DLQ" } else { "left out" };
    report.staying.iter().map(move |(reason, (count, examples))| {
        format!("{} {left}: {reason} (e.g. {})", group_digits(*count), examples.join(", "))
    })
}

/// Describes the consequence of sending to a queue without a consumer. `why` is the evidence that it has none.
pub fn describe_missing_consumer(why: &str) -> String {
    format!(
        "{why}: messages that are sent back wait there, at most for the queue's retention, and cannot be watched"
    )
}

#[cfg(test)]
mod tests {
    use redeliver_core::ports::{EntryError, Fault};
    use redeliver_dead_letters::DeletionError;
    use redeliver_dead_letters::redrive::PilotResult;

    use super::*;

    const HERE: ContinuationWording = ContinuationWording { again: "continue here", anyway: "100 %" };

    #[test]
    fn a_stopped_run_reports_the_new_failures_and_how_to_continue() {
        let watched = PilotResult { seconds: 90, sent: 50, came_back: 2, waiting: Some(30) };
        let report = RedriveReport {
            sent: 50,
            pilot_result: Some(watched),
            came_back: ["x".to_owned(), "y".to_owned()].into(),
            ..RedriveReport::default()
        };
        assert_eq!(
            next_step(&report, RedriveOutcome::Stopped, HERE).unwrap(),
            "stopped: of 50 messages that this run sent, 2 came straight back, and about 30 wait for a retry: the cause \
             remains. Fix it and continue here, or continue anyway with 100 %"
        );
        assert_eq!(
            next_step(&report, RedriveOutcome::Left, HERE).unwrap(),
            "2 messages came straight back and stay"
        );
        assert_eq!(next_step(&report, RedriveOutcome::Done, HERE), None);
    }

    #[test]
    fn messages_in_both_queues_are_reported_with_the_reason_and_the_remedy() {
        let sentence = |why_not_deleted| {
            let report = RedriveReport { not_deleted: 2, why_not_deleted, ..RedriveReport::default() };
            next_step(&report, RedriveOutcome::NotDeleted, HERE).unwrap()
        };
        let failed = |fault, code| Some(DeletionError::Failed(EntryError::new(fault, code)));
        for (why, reason, remedy) in [
            (
                Some(DeletionError::VisibleToOthers),
                "The deletion of the last one: another program may have received it (VisibleToOthers).",
                "Stop the other program that reads the DLQ",
            ),
            (failed(Fault::Sender, "AccessDenied"), "(AccessDenied).", "Allow sqs:DeleteMessage on the DLQ"),
            (
                failed(Fault::Throttled, "RequestThrottled"),
                "(RequestThrottled).",
                "Wait until SQS answers again",
            ),
            (None, "Their deletion is not confirmed.", "Make sure that nothing else reads the DLQ"),
        ] {
            let found = sentence(why);
            assert!(
                found.starts_with("sent, NOT deleted: 2 messages of the DLQ are also in the source queue. ")
            );
            assert!(found.contains(&format!("{reason} Do not send")), "{found}");
            assert!(found.contains(&format!("{remedy}, then continue here: it deletes them")), "{found}");
        }
    }
}
