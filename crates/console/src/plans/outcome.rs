//! Describes the outcome of a run: how it ended, its counts and the next step.

use redeliver_dead_letters::purge::PurgeReport;
use redeliver_dead_letters::redrive::{EarlyEnd, JournalCounts, RedriveOutcome, RedriveReport};
use redeliver_operator::redrive::{ContinuationWording, describe_remaining_messages, next_step};
use redeliver_operator::sentences::{describe_incompleteness, describe_pilot_result};
use redeliver_operator::terminal::escape::escape_lines;

use crate::plans::plan::{ConsolePlan, PlanAction, PlanOutcome};

/// The buttons on a plan's page, as named in sentences.
const CONTINUATION: ContinuationWording = ContinuationWording { again: "continue here", anyway: "100 %" };

/// Returns the outcome of a redrive: how its last run ended, and the progress over all runs. `came_back` is the number
/// of messages that runs have seen again in the DLQ.
pub(crate) fn redrive_outcome(
    report: &RedriveReport,
    all: &JournalCounts,
    came_back: u64,
    plan: &ConsolePlan,
) -> PlanOutcome {
    let is_restore = matches!(plan.action, PlanAction::Restore { .. });
    let ending = match RedriveOutcome::from_report(report, u64::MAX) {
        // A file has no other consumer: lines that were not seen are damaged, and remain damaged.
        RedriveOutcome::NotSeen if is_restore => RedriveOutcome::Left,
        ending => ending,
    };
    let mut counts = journal_counts(all, came_back, plan);
    // Another run would not change the reasons for which the other messages are skipped.
    let finished = matches!(ending, RedriveOutcome::Done | RedriveOutcome::Left) && report.to_retry == 0;
    let gone = (plan.messages.len() as u64).saturating_sub(all.sent + report.staying_count());
    counts.extend(nonzero_counts(&[
        ("stay", report.staying_count()),
        (
            if is_restore { "no complete line in the backups" } else { "no longer in the DLQ when it ran" },
            if finished { gone } else { 0 },
        ),
    ]));
    let mut remarks: Vec<_> = report.pilot_result.iter().map(describe_pilot_result).collect();
    remarks.extend(describe_remaining_messages(report, !is_restore));
    if let Some(EarlyEnd::Failed(why)) = &report.early_end {
        remarks.push(why.clone());
    }
    remarks.extend(next_step(report, ending, CONTINUATION));
    PlanOutcome {
        finished,
        ending: match ending {
            RedriveOutcome::Done => "done",
            RedriveOutcome::Left if finished => "done, except for messages that stay",
            RedriveOutcome::Left => "not all messages were sent",
            RedriveOutcome::NotSeen => "not all of the queue was seen",
            RedriveOutcome::Stopped => "stopped: too many messages failed again",
            RedriveOutcome::Failed => "failed",
            RedriveOutcome::NotDeleted => "messages are in both queues",
            RedriveOutcome::Interrupted => "paused",
        }
        .to_owned(),
        counts,
        remarks: remarks.iter().map(|remark| escape_lines(remark)).collect(),
        // Taken from the journal: after an error, the report includes only the attempted deletions.
        in_both_queues: !finished && (all.sent > all.deleted || all.unknown > 0),
        ..PlanOutcome::default()
    }
}

/// Returns counts over the runs of a redrive.
pub(crate) fn journal_counts(all: &JournalCounts, came_back: u64, plan: &ConsolePlan) -> Vec<(String, u64)> {
    let mut counts = vec![(plan.action.past_participle().to_owned(), all.sent)];
    counts.extend(nonzero_counts(&[
        ("edited", all.edited),
        ("possible copies, at most", all.possible_copies),
        ("died again", came_back),
        ("sent, not deleted from the DLQ", all.sent - all.deleted),
        ("possibly sent: the next run sends them again", all.unknown),
    ]));
    counts
}

/// Returns the outcome of a deletion, including earlier runs.
pub(crate) fn purge_outcome(
    purged: &PurgeReport,
    deleted_before: u64,
    backup: &str,
    planned: u64,
) -> PlanOutcome {
    let all_seen = purged.coverage.is_some_and(|coverage| coverage.complete);
    let left = purged.picked.saturating_sub(purged.deleted);
    let mut remarks = vec![format!("the messages that this run deleted are in {backup}")];
    remarks.extend(purged.failed.clone());
    remarks.extend(
        purged.why_not_deleted.iter().map(|why| format!("{why}. {}, and continue here", why.remedy())),
    );
    remarks.extend(
        purged
            .coverage
            .filter(|coverage| !coverage.complete)
            .map(|coverage| describe_incompleteness(&coverage)),
    );
    let gone = planned.saturating_sub(deleted_before + purged.deleted);
    let finished = all_seen && left == 0 && purged.failed.is_none() && !purged.interrupted;
    PlanOutcome {
        finished,
        ending: match (finished, purged.interrupted, purged.failed.is_some()) {
            (true, ..) => "done",
            (_, true, _) => "paused",
            (_, _, true) => "failed",
            _ => "not all messages were deleted",
        }
        .to_owned(),
        counts: [("deleted".to_owned(), deleted_before + purged.deleted)]
            .into_iter()
            .chain(nonzero_counts(&[
                ("not deleted", left),
                ("no longer in the DLQ when it ran", if finished { gone } else { 0 }),
            ]))
            .collect(),
        remarks: remarks.iter().map(|remark| escape_lines(remark)).collect(),
        ..PlanOutcome::default()
    }
}

/// Returns the counts that are not 0.
fn nonzero_counts(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    let seen = counts.iter().filter(|(_, count)| *count > 0);
    seen.map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[cfg(test)]
mod tests;
