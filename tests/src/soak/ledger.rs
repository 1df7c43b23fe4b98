//! The ledger: from what was observed it decides whether anything was lost, changed, miscounted or copied without a reason.
//!
//! A message is a number of copies, at first one. A function that is given a copy may send some on and have some processed (its *effects*);
//! then the copy is deleted, or it is not and comes back. So each delivery adds `effects - deleted` copies:
//!
//! - fewer than none: a copy was lost. A copy may be deleted only after an effect that the function knows of.
//! - none: as it should be.
//! - more: each one needs a cause that was seen from outside, such as an answer that the proxy lost, or a kill.
//!
//! And what was sent, plus all that arrived in any queue, less all that was deleted, is what stands in the final DLQ.

mod content;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Answer, Call, Content, Delivery, End, History, Invocation, Key, Send, Stage, Told};
use super::messages::Sent;
use super::target;
pub(super) use content::failure_type;
use content::{attempt, check_content, check_send, redrives, redrives_in_all};
use verdicts::{check_verdict, error_type};

/// The policy's `max_attempts` of a soak.
pub const ATTEMPTS_MAX: u64 = 5;
/// The policy's `max_redrives`.
pub const REDRIVES_MAX: u64 = 4;
/// Moves of a message that is answered in between.
pub const REDRIVES_IN_ALL_MAX: u64 = 20;
/// The longest delay that its policy can ask for; its target asks for less.
pub const DELAY_SECONDS_MAX: u64 = 2;

/// What came of a history.
#[derive(Debug, Default)]
pub struct Balance {
    /// What must not be; empty if the ledger balances.
    pub violations: Vec<Violation>,
    /// Copies by the cause of each.
    pub copies: BTreeMap<String, usize>,
    /// Messages that were processed at least once.
    pub processed: usize,
    /// Records in the final DLQ by error type, the first of each message.
    pub dead_lettered: BTreeMap<String, usize>,
    /// Messages that were both processed and dead-lettered.
    pub both: usize,
    /// Ends beyond the first of each message: as many as there are copies.
    pub ends_beyond_first: usize,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Of which message.
    pub key: Option<Key>,
    /// What kind.
    pub kind: Kind,
    /// For people.
    pub text: String,
}

/// Kinds of what must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Neither processed nor in the final DLQ.
    Lost,
    /// The function called a copy done though it knew of no effect.
    DoneTooSoon,
    /// More copies than causes.
    UnexplainedCopy,
    /// What is in the final DLQ is not what is left over.
    OutOfBalance,
    /// A body or an attribute is not as it was sent.
    Changed,
    /// An attempt beyond the limit, or not counted, or counted twice; or a delay.
    Miscounted,
    /// It was sent where it does not belong, or nobody had received it, or the target was called for an invalid one.
    Misled,
    /// Its error type does not fit what happened.
    WrongVerdict,
    /// A redirect was followed, a process died by itself, or the like.
    Trouble,
}

/// A kind, and what is to be said.
type Fault = (Kind, String);

/// What one function did with one message in one invocation.
#[derive(Default)]
struct Episode<'a> {
    deliveries: Vec<&'a Delivery>,
    sends: Vec<&'a Send>,
    calls: Vec<&'a Call>,
}

/// All of one message.
#[derive(Default)]
struct Story<'a> {
    episodes: BTreeMap<Invocation, Episode<'a>>,
    finals: Vec<&'a Content>,
}

/// Strikes the balance.
#[must_use]
pub fn balance(history: &History) -> Balance {
    let mut balance = Balance::default();
    balance.violations.extend(history.troubles.iter().map(|text| Violation {
        key: None,
        kind: Kind::Trouble,
        text: text.clone(),
    }));
    for (key, story) in &stories(history) {
        match history.sent.get(*key) {
            Some(sent) => balance.strike(*key, sent, story),
            None => balance.violation(*key, (Kind::Misled, "nobody sent it".to_owned())),
        }
    }
    balance
}

fn stories(history: &History) -> BTreeMap<Key, Story<'_>> {
    let mut stories: BTreeMap<Key, Story<'_>> =
        (0..history.sent.len()).map(|key| (key, Story::default())).collect();
    for delivery in &history.deliveries {
        let story = stories.entry(delivery.key).or_default();
        story.episodes.entry(delivery.invocation).or_default().deliveries.push(delivery);
    }
    for send in &history.sends {
        stories.entry(send.key).or_default().episodes.entry(send.invocation).or_default().sends.push(send);
    }
    for call in &history.calls {
        stories.entry(call.key).or_default().episodes.entry(call.invocation).or_default().calls.push(call);
    }
    for (key, content) in &history.finals {
        stories.entry(*key).or_default().finals.push(content);
    }
    stories
}

impl Balance {
    fn violation(&mut self, key: Key, (kind, text): Fault) {
        self.violations.push(Violation { key: Some(key), kind, text });
    }

    fn strike(&mut self, key: Key, sent: &Sent, story: &Story<'_>) {
        let (mut arrived, mut deleted, mut successes) = (0, 0, 0);
        for (invocation, episode) in &story.episodes {
            arrived += episode.sends.iter().filter(|send| send.arrived).count();
            deleted += episode.count(|end| end == End::Deleted);
            successes += episode.successes();
            for (kind, text) in episode.faults(sent) {
                self.violation(key, (kind, format!("invocation {invocation}: {text}")));
            }
            match episode.copies() {
                Ok(causes) => {
                    causes.into_iter().for_each(|cause| *self.copies.entry(cause).or_default() += 1)
                }
                Err((kind, text)) => self.violation(key, (kind, format!("invocation {invocation}: {text}"))),
            }
        }
        let finals = story.finals.len();
        if 1 + arrived != deleted + finals {
            let text = format!(
                "1 sent + {arrived} arrived in queues - {deleted} deleted is not {finals} in the final DLQ"
            );
            self.violation(key, (Kind::OutOfBalance, text));
        }
        for content in &story.finals {
            let checked = check_content(sent, Stage::Final, content)
                .and_then(|metadata| check_attempt(&metadata).map(|()| metadata))
                .and_then(|metadata| check_verdict(sent, content, &metadata, story));
            if let Err(fault) = checked {
                self.violation(key, fault);
            }
        }
        match (successes, finals) {
            (0, 0) => self.violation(key, (Kind::Lost, "neither processed nor in the final DLQ".to_owned())),
            (successes, finals) => self.ends_beyond_first += successes + finals - 1,
        }
        self.processed += usize::from(successes > 0);
        self.both += usize::from(successes > 0 && finals > 0);
        if let Some(content) = story.finals.first() {
            *self.dead_lettered.entry(error_type(content).to_owned()).or_default() += 1;
        }
    }
}

impl Episode<'_> {
    fn count(&self, is: impl Fn(End) -> bool) -> usize {
        self.deliveries.iter().filter(|delivery| is(delivery.end)).count()
    }

    fn successes(&self) -> usize {
        self.calls.iter().filter(|call| call.answer == Answer::Success).count()
    }

    /// Everything but copies.
    fn faults(&self, sent: &Sent) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.deliveries.is_empty() {
            faults.push((Kind::Misled, "the function sent or called what it had not received".to_owned()));
        }
        for delivery in &self.deliveries {
            let checked = check_content(sent, delivery.from, &delivery.content);
            faults.extend(checked.and_then(|metadata| check_attempt(&metadata)).err());
        }
        for send in &self.sends {
            faults.extend(check_send(sent, send, &self.deliveries).err());
        }
        for call in &self.calls {
            faults.extend(check_call(sent, call, &self.deliveries).err());
        }
        let confirmed = self.sends.iter().filter(|send| !matches!(send.told, Told::NotConfirmed(_))).count();
        let known = confirmed + self.successes();
        let done = self.count(|end| matches!(end, End::Deleted | End::DeleteLost | End::VisibilityExpired));
        if done > known {
            let text = format!("{done} called done, but only {known} confirmed or processed");
            faults.push((Kind::DoneTooSoon, text));
        }
        faults
    }

    /// The causes of the copies that were made here, one each.
    fn copies(&self) -> Result<Vec<String>, Fault> {
        let effects = self.sends.iter().filter(|send| send.arrived).count() + self.successes();
        let copies = effects.saturating_sub(self.count(|end| end == End::Deleted));
        let mut causes = self.causes();
        if copies > causes.len() {
            let text = format!("{copies} copies, but only these causes: {causes:?}");
            return Err((Kind::UnexplainedCopy, text));
        }
        causes.truncate(copies);
        Ok(causes)
    }

    /// Whatever can have made a copy here.
    fn causes(&self) -> Vec<String> {
        let unconfirmed = self.sends.iter().filter(|send| send.arrived).filter_map(|send| match send.told {
            Told::Confirmed => None,
            Told::ConfirmedLate => Some("confirmed late".to_owned()),
            Told::NotConfirmed(fault) => Some(fault.to_owned()),
        });
        let not_deleted = self.deliveries.iter().filter_map(|delivery| match delivery.end {
            End::Killed => Some(format!("killed: {}", delivery.from.function())),
            End::TimedOut => Some(format!("timed out: {}", delivery.from.function())),
            End::DeleteLost => Some("delete lost".to_owned()),
            End::VisibilityExpired => Some("visibility expired".to_owned()),
            End::Deleted | End::Failed | End::Abandoned => None,
        });
        // Of an answer that came when the function had stopped waiting it says so itself; that so much time had passed was seen.
        let too_late = self.sends.iter().filter(|send| {
            // An oversize message that is sent again has no room for its history.
            send.after >= target::TIMEOUT
                && ["Http.Timeout", "Timeout", ""].contains(&failure_type(&send.content).as_str())
        });
        let too_late = too_late.take(self.successes()).map(|_| "target's answer too late".to_owned());
        unconfirmed.chain(not_deleted).chain(too_late).collect()
    }
}

impl Story<'_> {
    fn calls(&self) -> impl Iterator<Item = &&Call> {
        self.episodes.values().flat_map(|episode| &episode.calls)
    }

    fn deliveries(&self) -> impl Iterator<Item = &&Delivery> {
        self.episodes.values().flat_map(|episode| &episode.deliveries)
    }

    /// The attempts with which it was received from the source queue.
    fn attempts(&self, sent: &Sent) -> BTreeSet<u64> {
        let from_source = self.deliveries().filter(|delivery| delivery.from == Stage::Source);
        from_source
            .filter_map(|delivery| content::metadata(sent, &delivery.content.body).ok())
            .map(|metadata| attempt(&metadata))
            .collect()
    }
}

fn check_call(sent: &Sent, call: &Call, deliveries: &[&Delivery]) -> Result<(), Fault> {
    if sent.frame.is_none() {
        return Err((Kind::Misled, "the target was called for an invalid message".to_owned()));
    }
    if !deliveries.iter().any(|delivery| delivery.content.body == call.body) {
        return Err((Kind::Changed, "the target was given other bytes than were received".to_owned()));
    }
    let metadata = content::metadata(sent, &call.body).map_err(|text| (Kind::Changed, text))?;
    if call.idempotency_key != sent.message_id || call.attempt != attempt(&metadata).to_string() {
        let text = format!("the target was told of {} attempt {}", call.idempotency_key, call.attempt);
        return Err((Kind::Miscounted, text));
    }
    Ok(())
}

fn check_attempt(metadata: &content::Metadata) -> Result<(), Fault> {
    let attempt = attempt(metadata);
    let redrives = redrives(metadata);
    let text = || {
        (Kind::Miscounted, format!("retry_attempt {attempt} or redrive_count {redrives} is beyond its limit"))
    };
    let are_too_many = redrives > REDRIVES_MAX || redrives_in_all(metadata) > REDRIVES_IN_ALL_MAX;
    if attempt > ATTEMPTS_MAX || are_too_many { Err(text()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
