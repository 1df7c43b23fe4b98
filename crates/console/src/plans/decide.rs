//! Determines what would happen to messages, using the `redeliver redrive` engine on the messages in the snapshot.

use std::collections::HashMap;

use redeliver_dead_letters::redrive::{self, RedriveReport};
use redeliver_operator::CommandFailure;

use crate::dead_letters::snapshot::Snapshot;
use crate::plans::plan::{PlanAction, PlannedRedrive};

pub(crate) const NOT_IN_SNAPSHOT: &str =
    "This message was not in the queue when it was last read: refresh \"Dead letters\".";

/// The decisions on a set of messages.
#[derive(Debug, Default)]
pub(crate) struct PlanDecision {
    pub(crate) report: RedriveReport,
    /// SQS message ids of the messages that would be sent or deleted.
    pub(crate) affected_ids: Vec<String>,
}

/// Determines what would happen to these messages now. `plan` is a redrive of all messages in their deployment.
pub(crate) fn evaluate_plan(
    snapshot: &Snapshot,
    action: &PlanAction,
    ids: &[String],
    plan: redrive::RedrivePlan,
) -> Result<PlanDecision, CommandFailure> {
    let redrive = action.planned_redrive(plan)?;
    let by_id: HashMap<_, _> =
        snapshot.letters.iter().map(|letter| (letter.sqs_message_id.as_str(), letter)).collect();
    let PlanDecision { mut report, mut affected_ids } = PlanDecision::default();
    for id in ids {
        let Some(letter) = by_id.get(id.as_str()) else {
            report.count_staying(id, NOT_IN_SNAPSHOT.to_owned());
            continue;
        };
        let mut source = None;
        // A deletion needs no decision.
        if let Some(PlannedRedrive { plan, .. }) = &redrive {
            let record = snapshot.read_record(letter)?;
            if plan.decide_and_count(&record, &mut report)?.is_none() {
                continue;
            }
            source = record.message.redriven_from;
        }
        report.count_type_and_source(&letter.error_type, source.as_deref());
        affected_ids.push(id.clone());
    }
    Ok(PlanDecision { report, affected_ids })
}
