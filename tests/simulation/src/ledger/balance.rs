//! The balance at the end of a run.

use super::{BrokenInvariant, Ledger, QueuePlace};
use crate::messages::ExpectedOutcome;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Balance {
    /// Number of sent messages.
    pub messages: u64,
    /// Number of successful calls, copies included.
    pub processed: u64,
    /// Number of final records, copies included.
    pub final_records: u64,
    /// Number of final records that SQS moved to the final DLQ, without annotation or archiving.
    pub moved_unannotated: u64,
    /// Number of deaths in the archive.
    pub archived: u64,
    /// Number of outcomes beyond one per sent message.
    pub copies: u64,
}

impl Ledger {
    /// Describes the messages that are still in transit.
    #[must_use]
    pub fn unsettled_messages(&self) -> Vec<String> {
        let on_its_way = |live: &[u32; 4]| live[..QueuePlace::Final as usize].iter().sum::<u32>() > 0;
        let all = self.subjects.iter().enumerate();
        all.filter(|(_, subject)| on_its_way(&subject.live))
            .map(|(n, subject)| format!("message {n}: copies by queue {:?}", subject.live))
            .collect()
    }

    /// Returns the balance once no message is in transit.
    ///
    /// # Errors
    /// The first message that was lost or had a wrong outcome, or totals that disagree.
    pub fn check_balance(&self) -> Result<Balance, BrokenInvariant> {
        let mut balance = Balance::default();
        for (n, subject) in self.subjects.iter().enumerate() {
            let (processed, records) = (subject.processed, subject.final_records);
            if subject.outcome_count() == 0 {
                return Err(format!("message {n} is lost: it is neither processed nor in the final DLQ"));
            }
            if subject.produced.expected != ExpectedOutcome::Handled && processed > 0 {
                return Err(format!("message {n} is invalid, but was processed"));
            }
            if self.knobs.makes_no_copies() && subject.outcome_count() != subject.sends {
                return Err(format!(
                    "message {n}: {processed} processed, {records} final records, but no fault explains it"
                ));
            }
            balance.messages += u64::from(subject.sends);
            balance.processed += u64::from(processed);
            balance.final_records += u64::from(records);
            balance.moved_unannotated += u64::from(subject.moved_unannotated);
            balance.archived += u64::from(self.count_archived_deaths(n)?);
            balance.copies += u64::from(subject.outcome_count().saturating_sub(subject.sends));
        }
        let tracker = &self.tracker;
        let reported = Balance {
            messages: tracker.total_sent(),
            processed: tracker.total_processed(),
            final_records: tracker.dead_letters().values().sum(),
            copies: tracker.copy_count(),
            ..balance
        };
        let settled: u32 =
            self.subjects.iter().map(|subject| subject.outcome_count().min(subject.sends)).sum();
        let same =
            tracker.settled_count() == u64::from(settled) && *tracker.dead_letters() == self.by_error_type;
        if reported != balance || !same {
            return Err(format!(
                "the tracker of `redeliver local` reports {reported:?} instead of {balance:?}"
            ));
        }
        Ok(balance)
    }
}
