//! Decides what would happen to messages, with the engine of `redeliver redrive` and the messages of the snapshot.

use std::collections::HashMap;

use redeliver_dead_letters::redrive::{self, RedriveReport};
use redeliver_operator::Failure;

use crate::dead_letters::snapshot::Snapshot;
use crate::plans::plan::{Action, Redrive};

pub(crate) const NOT_THERE: &str =
    "This message was not in the queue when it was last read: look again under \"Dead letters\".";

/// The decisions on a set of messages.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    pub(crate) report: RedriveReport,
    /// SQS's ids of the messages that would go.
    pub(crate) going: Vec<String>,
}

/// Decides what would happen to these messages now. `how` is a redrive of all messages of their deployment.
pub(crate) fn decide(
    snapshot: &Snapshot,
    action: &Action,
    ids: &[String],
    how: redrive::Plan,
) -> Result<Decided, Failure> {
    let redrive = action.redrive(how)?;
    let by_id: HashMap<_, _> =
        snapshot.letters.iter().map(|letter| (letter.sqs_message_id.as_str(), letter)).collect();
    let Decided { mut report, mut going } = Decided::default();
    for id in ids {
        let Some(letter) = by_id.get(id.as_str()) else {
            report.stay(id, NOT_THERE.to_owned());
            continue;
        };
        let mut source = None;
        // A deletion needs no decision.
        if let Some(Redrive { plan, .. }) = &redrive {
            let record = snapshot.record(letter)?;
            if plan.choose(&record, &mut report)?.is_none() {
                continue;
            }
            source = record.message.redriven_from;
        }
        report.count_kind(&letter.error_type, source.as_deref());
        going.push(id.clone());
    }
    Ok(Decided { report, going })
}
