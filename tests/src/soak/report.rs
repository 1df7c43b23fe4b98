//! What a soak tells people.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use super::history::{Answer, History, Key, Stage};
use super::ledger::{Balance, failure_type};
use super::recorder::Counts;
use super::run::Soak;

/// A soak that is over.
pub struct Report {
    /// What was asked for.
    pub soak: Soak,
    /// All that was observed.
    pub history: History,
    /// In numbers.
    pub counts: Counts,
    /// What the ledger says.
    pub balance: Balance,
    /// How long there were faults and kills.
    pub burned: Duration,
    /// How long it took in all.
    pub took: Duration,
}

/// Violations that are shown.
const SHOWN: usize = 10;

impl Report {
    /// Whether nothing was lost, changed, miscounted or copied without a reason.
    #[must_use]
    pub fn balances(&self) -> bool {
        self.balance.violations.is_empty()
    }

    /// What failed messages said of their failure.
    fn hand_offs(&self) -> BTreeMap<String, usize> {
        let mut hand_offs = BTreeMap::new();
        for delivery in self.history.deliveries.iter().filter(|it| it.from == Stage::Intermediate) {
            let reason = match failure_type(&delivery.content) {
                none if none.is_empty() => "by redrive".to_owned(),
                status if status.starts_with("HttpStatus.") => "handed off: HttpStatus".to_owned(),
                other => format!("handed off: {other}"),
            };
            *hand_offs.entry(reason).or_default() += 1;
        }
        hand_offs
    }

    /// Everything that was observed of a message.
    fn story(&self, key: Key) -> String {
        let mut lines = BTreeMap::<(u64, u8), Vec<String>>::new();
        for it in self.history.deliveries.iter().filter(|it| it.key == key) {
            let line = format!("received from the {} ({}): {:?}", it.from.name(), it.receives, it.end);
            lines.entry((it.invocation, 0)).or_default().push(line);
        }
        for it in self.history.calls.iter().filter(|it| it.key == key) {
            let line = format!("called with attempt {}: {:?}", it.attempt, it.answer);
            lines.entry((it.invocation, 1)).or_default().push(line);
        }
        for it in self.history.sends.iter().filter(|it| it.key == key) {
            let arrived = if it.arrived { "arrived" } else { "did not arrive" };
            let line = format!("sent to the {}, {arrived}, {:?} after {:?}", it.to.name(), it.told, it.after);
            lines.entry((it.invocation, 2)).or_default().push(line);
        }
        let mut story = String::new();
        for ((invocation, _), lines) in lines {
            for line in lines {
                let _infallible = writeln!(story, "      invocation {invocation}: {line}");
            }
        }
        story
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { soak, history, counts, balance, burned, took } = self;
        let mut fates = BTreeMap::<_, usize>::new();
        for sent in &history.sent {
            *fates.entry(format!("{:?}", sent.fate)).or_default() += 1;
        }
        writeln!(f, "messages: {} with seed {}", history.sent.len(), soak.seed)?;
        table(f, &fates)?;
        let deliveries = history.deliveries.len();
        writeln!(f, "deliveries: {deliveries} in {} invocations", counts.invocations)?;
        let mut ends = BTreeMap::<_, usize>::new();
        for delivery in &history.deliveries {
            *ends.entry(format!("{}: {:?}", delivery.from.name(), delivery.end)).or_default() += 1;
        }
        table(f, &ends)?;
        writeln!(f, "calls of the target: {}", history.calls.len())?;
        let mut answers = BTreeMap::<Answer, usize>::new();
        for call in &history.calls {
            *answers.entry(call.answer).or_default() += 1;
        }
        table(f, &answers.into_iter().map(|(answer, count)| (format!("{answer:?}"), count)).collect())?;
        let hand_offs = self.hand_offs();
        writeln!(f, "received from the intermediate DLQ: {}", hand_offs.values().sum::<usize>())?;
        table(f, &hand_offs)?;
        writeln!(f, "faults: {}", counts.faults.values().sum::<usize>())?;
        table(f, &counts.faults)?;
        writeln!(f, "processes killed: {}", counts.kills.values().sum::<usize>())?;
        table(f, &counts.kills)?;
        writeln!(f, "processed: {}, of which also dead-lettered: {}", balance.processed, balance.both)?;
        writeln!(f, "dead-lettered: {}", balance.dead_lettered.values().sum::<usize>())?;
        table(f, &balance.dead_lettered)?;
        let copies = balance.copies.values().sum::<usize>();
        writeln!(f, "copies: {} ends beyond the first, {copies} causes", balance.ends_beyond_first)?;
        table(f, &balance.copies)?;
        let (took, burned) = (took.as_secs_f64(), burned.as_secs_f64());
        writeln!(f, "seconds: {took:.0}, {burned:.0} of them under fire")?;
        for violation in balance.violations.iter().take(SHOWN) {
            let key = violation.key.map_or(String::new(), |key| format!(", message {key}"));
            writeln!(f, "VIOLATION {:?}{key}: {}", violation.kind, violation.text)?;
            if let Some(key) = violation.key {
                write!(f, "{}", self.story(key))?;
            }
        }
        match balance.violations.len() {
            0 => write!(f, "the ledger balances: nothing is lost, every copy has its cause"),
            count => write!(f, "the ledger does not balance: {count} violations"),
        }
    }
}

fn table(f: &mut fmt::Formatter<'_>, rows: &BTreeMap<impl fmt::Display, usize>) -> fmt::Result {
    rows.iter().try_for_each(|(name, count)| writeln!(f, "{count:>8}  {name}"))
}
