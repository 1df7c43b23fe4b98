//! Makes plans of what is selected: by the engine's own decision, on the messages as they were looked at.

use std::collections::{BTreeMap, HashMap};

use redeliver_aws::SystemClock;
use redeliver_core::message::metadata::rfc3339;
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::Pick;
use redeliver_dead_letters::redrive::Verdict;
use serde::Deserialize;

use super::at::{At, NOT_THERE};
use super::letters::{Letters, Selection};
use super::plans::{Plan, Work};
use redeliver_operator::Failure;

/// Examples of ids.
const EXAMPLES: usize = 3;

/// What a form asks a plan for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    work: String,
    body: Option<String>,
    new_id: Option<String>,
    #[serde(flatten)]
    selection: Selection,
}

/// What would become of a set.
#[derive(Debug, Default)]
pub(super) struct Decided {
    pub(super) going: Vec<String>,
    /// Number of these by error type.
    pub(super) by_type: BTreeMap<String, u64>,
    /// Why, how many, and which for example.
    pub(super) staying: BTreeMap<String, (u64, Vec<String>)>,
}

/// The plan, which has only what can go: it is fixed from now on.
pub(super) fn plan(at: &At, asked: &Asked) -> Result<Plan, Failure> {
    let letters = at.letters()?;
    let work = match asked.work.as_str() {
        "delete" => Work::Delete,
        "send_back" => Work::SendBack {
            to: at.source()?.to_owned(),
            edit: asked.body.clone(),
            new_id: asked.new_id.is_some(),
            max_generation: at.site.max_generation,
        },
        _ => return Err("a plan is to send back or to delete".into()),
    };
    let selected = letters.select(&asked.selection)?.letters;
    if asked.body.is_some() && selected.len() != 1 {
        return Err("an edited body is for one message".into());
    }
    let ids: Vec<_> = selected.iter().map(|letter| letter.sqs_message_id.clone()).collect();
    let going = decide(at, &letters, &work, &ids)?.going;
    if asked.body.is_some() && going.is_empty() {
        return Err("the edited message would stay: look at what the page says below the body".into());
    }
    // If nothing can go, the page of the plan says of all of it why it stays.
    let messages = if going.is_empty() { ids } else { going };
    Ok(Plan::new(rfc3339(SystemClock.now()), &at.from, work, asked.selection.words(), messages))
}

/// What would become of these messages now.
pub(super) fn decide(at: &At, letters: &Letters, work: &Work, ids: &[String]) -> Result<Decided, Failure> {
    let redrive = work.redrive(Pick::default(), &at.site.schema);
    let by_id: HashMap<_, _> =
        letters.letters.iter().map(|letter| (letter.sqs_message_id.as_str(), letter)).collect();
    let mut decided = Decided::default();
    for id in ids {
        let Some(letter) = by_id.get(id.as_str()) else {
            decided.stays(NOT_THERE.to_owned(), id);
            continue;
        };
        // What is to be deleted has nothing to be decided.
        let verdict =
            redrive.as_ref().map(|(_, how)| Ok::<_, Failure>(how.decide(&letters.record(letter)?)?));
        match verdict.transpose()? {
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
