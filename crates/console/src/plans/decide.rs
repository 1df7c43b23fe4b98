//! Decides what would happen to messages, with the engine of `redeliver redrive` and the messages of the snapshot.

use std::collections::{BTreeMap, HashMap};

use redeliver_core::message::schema::MessageSchema;
use redeliver_dead_letters::Pick;
use redeliver_dead_letters::redrive::Verdict;
use redeliver_operator::Failure;

use crate::dead_letters::snapshot::Snapshot;
use crate::plans::plan::Action;

pub(crate) const NOT_THERE: &str =
    "This message was not in the queue when it was last read: look again under \"Dead letters\".";

/// The reason why a message is not in a plan with a jq expression.
pub(crate) const UNCHANGED: &str = "the edit does not change it";

/// Example ids of each reason.
const EXAMPLES: usize = 3;

/// The decisions on a set of messages.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    pub(crate) going: Vec<String>,
    /// The number of `going` by error type.
    pub(crate) by_type: BTreeMap<String, u64>,
    /// Each reason, with the number of messages and some of their ids.
    pub(crate) staying: BTreeMap<String, (u64, Vec<String>)>,
}

/// Decides what would happen to these messages now.
pub(crate) fn decide(
    snapshot: &Snapshot,
    action: &Action,
    ids: &[String],
    schema: &MessageSchema,
) -> Result<Decided, Failure> {
    let redrive = action.redrive(Pick::default(), schema)?;
    let is_program = matches!(action, Action::SendBack { program: Some(_), .. });
    let by_id: HashMap<_, _> =
        snapshot.letters.iter().map(|letter| (letter.sqs_message_id.as_str(), letter)).collect();
    let mut decided = Decided::default();
    for id in ids {
        let Some(letter) = by_id.get(id.as_str()) else {
            decided.stays(NOT_THERE.to_owned(), id);
            continue;
        };
        // Others need no decision.
        let verdict =
            redrive.as_ref().map(|(_, how)| Ok::<_, Failure>(how.decide(&snapshot.record(letter)?)?));
        match verdict.transpose()? {
            Some(Verdict::Send(send_back)) if is_program && !send_back.edited => {
                decided.stays(UNCHANGED.to_owned(), id);
            }
            None | Some(Verdict::Send(_)) => {
                decided.going.push(id.clone());
                *decided.by_type.entry(letter.error_type.clone()).or_default() += 1;
            }
            Some(Verdict::Stays(reason)) => decided.stays(reason.to_string(), id),
            Some(Verdict::NotSelected) => decided.stays("is not selected".to_owned(), id),
        }
    }
    Ok(decided)
}

impl Decided {
    fn stays(&mut self, reason: String, id: &str) {
        let (count, examples) = self.staying.entry(reason).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(id.to_owned());
        }
    }
}
