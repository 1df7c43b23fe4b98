//! The outcome of a run in words: its ending, its numbers and what to do next.

use redeliver_dead_letters::purge::Purged;
use redeliver_dead_letters::redrive::{Early, Ending, JournalCounts, RedriveReport};
use redeliver_operator::sending::{Stopped, Summary};
use redeliver_operator::sentences::{incompleteness, watched_in_words, why_not_deleted};
use redeliver_operator::terminal::escape::escaped_lines;
use redeliver_operator::terminal::units::counted;

use crate::plans::plan::Outcome;

/// The outcome of a redrive: how its last run ended, and how far all of them are. `came_back` is how many a run has seen
/// in the DLQ again, `planned` how many the plan has.
pub(crate) fn of_redrive(
    report: &RedriveReport,
    all: &JournalCounts,
    came_back: u64,
    planned: u64,
) -> Outcome {
    let ending = Ending::of(report, u64::MAX);
    let mut counts = of_journal(all, came_back);
    // Another run would not change the reasons why messages stay.
    let finished = matches!(ending, Ending::Done | Ending::Left);
    let gone = planned.saturating_sub(all.sent + report.staying_count());
    counts.extend(shown(&[
        ("stay", report.staying_count()),
        ("no longer in the DLQ when it ran", if finished { gone } else { 0 }),
    ]));
    let mut remarks: Vec<_> = report.watched.iter().map(watched_in_words).collect();
    remarks.extend(report.staying.iter().map(|(reason, (count, examples))| {
        format!("{} left in the DLQ: {reason} (e.g. {})", counted(*count, "message"), examples.join(", "))
    }));
    if let Some(Early::Failed(why)) = &report.early {
        remarks.push(why.clone());
    }
    remarks.extend(next(ending, report));
    Outcome {
        finished,
        ending: match ending {
            Ending::Done => "done",
            Ending::Left => "done, except for what stays",
            Ending::NotSeen => "not all of the queue was seen",
            Ending::Stopped => "stopped: too much of it failed again",
            Ending::Failed => "failed",
            Ending::NotDeleted => "messages are in both queues",
            Ending::Interrupted => "paused",
        }
        .to_owned(),
        counts,
        remarks: remarks.iter().map(|remark| escaped_lines(remark)).collect(),
        // By the journal: after an error, the report knows only the deletions that were tried.
        in_both_queues: !finished && may_be_in_both_queues(all),
        ..Outcome::default()
    }
}

/// True if messages are, or may be, in the source queue and in the DLQ.
const fn may_be_in_both_queues(all: &JournalCounts) -> bool {
    all.sent > all.deleted || all.unknown > 0
}

/// Counts over the runs of a redrive.
pub(crate) fn of_journal(all: &JournalCounts, came_back: u64) -> Vec<(String, u64)> {
    let mut counts = vec![("sent back".to_owned(), all.sent)];
    counts.extend(shown(&[
        ("edited", all.edited),
        ("possible copies, at most", all.possible_copies),
        ("died again", came_back),
        ("sent, not deleted from the DLQ", all.sent - all.deleted),
        ("perhaps sent: the next run sends them again", all.unknown),
    ]));
    counts
}

/// Says what to do next, if anything.
fn next(ending: Ending, report: &RedriveReport) -> Option<String> {
    Some(match ending {
        Ending::Done | Ending::Left => return None,
        Ending::NotSeen => {
            "another program reads the queue, or did: hidden messages are visible again within two minutes. Go on \
             then".to_owned()
        }
        Ending::Failed | Ending::Interrupted => "it continues where it ended".to_owned(),
        Ending::Stopped => {
            let waiting = report.watched.and_then(|watched| watched.waiting).unwrap_or(0);
            format!(
                "of {} that this run sent, {} came straight back, and about {waiting} wait for a retry: the cause \
                 remains. Fix it and go on, or go on anyway with 100 %",
                counted(report.sent, "message"),
                report.came_back_count()
            )
        }
        Ending::NotDeleted => {
            let (why, remedy) = why_not_deleted(report);
            format!(
                "{} were sent and are in the DLQ, too. {why} Do not send them back by other means: that makes copies. {remedy}, \
                 and go on here",
                counted(report.not_deleted, "message"),
            )
        }
    })
}

/// The outcome of a deletion, of which earlier runs have done a part.
pub(crate) fn of_purge(purged: &Purged, deleted_before: u64, backup: &str, planned: u64) -> Outcome {
    let all_seen = purged.coverage.is_some_and(|coverage| coverage.complete);
    let left = purged.picked.saturating_sub(purged.deleted);
    let mut remarks = vec![format!("what this run deleted is in {backup}")];
    remarks.extend(purged.failed.clone());
    remarks
        .extend(purged.why_not_deleted.iter().map(|why| format!("{why}. {}, and go on here", why.remedy())));
    remarks.extend(
        purged.coverage.filter(|coverage| !coverage.complete).map(|coverage| incompleteness(&coverage)),
    );
    let gone = planned.saturating_sub(deleted_before + purged.deleted);
    let finished = all_seen && left == 0 && purged.failed.is_none() && !purged.interrupted;
    Outcome {
        finished,
        ending: match (finished, purged.interrupted, purged.failed.is_some()) {
            (true, ..) => "done",
            (_, true, _) => "paused",
            (_, _, true) => "failed",
            _ => "not all of it was deleted",
        }
        .to_owned(),
        counts: [("deleted".to_owned(), deleted_before + purged.deleted)]
            .into_iter()
            .chain(shown(&[
                ("not deleted", left),
                ("no longer in the DLQ when it ran", if finished { gone } else { 0 }),
            ]))
            .collect(),
        remarks: remarks.iter().map(|remark| escaped_lines(remark)).collect(),
        ..Outcome::default()
    }
}

/// The outcome of restoring a deletion's backups. `problems` are sentences about lines.
pub(crate) fn of_restore(summary: &Summary, problems: &[String]) -> Outcome {
    let Summary { sent, sent_before, invalid, unconfirmed, stopped, .. } = summary;
    let mut counts = vec![("restored".to_owned(), sent + sent_before)];
    counts.extend(shown(&[
        ("lines that are not valid messages", *invalid),
        ("not confirmed by SQS", *unconfirmed),
    ]));
    let ending = match stopped {
        Some(Stopped::Interrupted) => "paused",
        Some(_) => "failed",
        None if *unconfirmed > 0 => "not all of it was restored",
        None if *invalid > 0 => "done, except for lines that are not messages",
        None => "done",
    };
    let remarks = stopped.iter().map(ToString::to_string).chain(problems.iter().cloned());
    Outcome {
        finished: stopped.is_none() && *unconfirmed == 0,
        ending: ending.to_owned(),
        counts,
        remarks: remarks.map(|remark| escaped_lines(&remark)).collect(),
        ..Outcome::default()
    }
}

/// The counts that are not 0.
fn shown(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    let seen = counts.iter().filter(|(_, count)| *count > 0);
    seen.map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[cfg(test)]
mod tests;
