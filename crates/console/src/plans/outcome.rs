//! The outcome of a run in words: its ending, its numbers and what to do next.

use redeliver_dead_letters::purge::Purged;
use redeliver_dead_letters::redrive::{Early, Ending, RedriveReport};
use redeliver_operator::sentences::{incompleteness, watched_in_words, why_not_deleted};
use redeliver_operator::terminal::escape::escaped_lines;
use redeliver_operator::terminal::units::counted;

use crate::plans::plan::Outcome;

/// The outcome of a redrive.
pub(crate) fn of_redrive(report: &RedriveReport) -> Outcome {
    let ending = Ending::of(report, u64::MAX);
    let counts = [
        ("sent back", report.sent),
        ("edited", report.edited),
        ("sent before, now deleted", report.deleted_only),
        ("copies of them, at most", report.possible_copies),
        ("came straight back", report.came_back_count()),
        ("sent, not deleted from the DLQ", report.not_deleted),
        ("stay", report.staying_count()),
    ];
    let mut remarks: Vec<_> = report.watched.iter().map(watched_in_words).collect();
    remarks.extend(report.staying.iter().map(|(reason, (count, examples))| {
        format!("{} left in the DLQ: {reason} (e.g. {})", counted(*count, "message"), examples.join(", "))
    }));
    if let Some(Early::Failed(why)) = &report.early {
        remarks.push(why.clone());
    }
    remarks.extend(next(ending, report));
    Outcome {
        // Another run would not change the reasons why messages stay.
        finished: matches!(ending, Ending::Done | Ending::Left),
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
        counts: shown(&counts),
        remarks: remarks.iter().map(|remark| escaped_lines(remark)).collect(),
        in_both_queues: report.not_deleted > 0,
        ..Outcome::default()
    }
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

/// The outcome of a deletion.
pub(crate) fn of_purge(purged: &Purged, backup: &str) -> Outcome {
    let all_seen = purged.coverage.is_some_and(|coverage| coverage.complete);
    let left = purged.picked.saturating_sub(purged.deleted);
    let mut remarks =
        vec![format!("what was deleted is in {backup}: `redeliver send --backup` sends it again")];
    remarks.extend(purged.failed.clone());
    remarks
        .extend(purged.why_not_deleted.iter().map(|why| format!("{why}. {}, and go on here", why.remedy())));
    remarks.extend(
        purged.coverage.filter(|coverage| !coverage.complete).map(|coverage| incompleteness(&coverage)),
    );
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
        counts: shown(&[("deleted", purged.deleted), ("not deleted", left)]),
        remarks: remarks.iter().map(|remark| escaped_lines(remark)).collect(),
        ..Outcome::default()
    }
}

/// Keeps the first count, and the others that are not 0.
fn shown(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    let seen = counts.iter().enumerate().filter(|(index, (_, count))| *index == 0 || *count > 0);
    seen.map(|(_, (name, count))| ((*name).to_owned(), *count)).collect()
}

#[cfg(test)]
mod tests;
