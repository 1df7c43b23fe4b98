//! The balance at the end.

use super::{BrokenInvariant, Ledger, QueuePlace};
use crate::messages::ExpectedEnd;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Balance {
    /// Messages that were sent.
    pub messages: u64,
    /// Successes of the target, copies included.
    pub processed: u64,
    /// Final records, copies included.
    pub final_records: u64,
    /// Those of them that SQS moved to the final DLQ: without an annotation, and not archived by that.
    pub moved_unannotated: u64,
    /// Deaths in the archive.
    pub archived: u64,
    /// Everything that came out more often than it went in.
    pub copies: u64,
}

impl Ledger {
    /// Messages that are still on their way, for humans.
    #[must_use]
    pub fn unsettled_messages(&self) -> Vec<String> {
        let on_its_way = |live: &[u32; 4]| live[..QueuePlace::Final as usize].iter().sum::<u32>() > 0;
        let all = self.subjects.iter().enumerate();
        all.filter(|(_, subject)| on_its_way(&subject.live))
            .map(|(n, subject)| format!("message {n}: copies by queue {:?}", subject.live))
            .collect()
    }

    /// The balance, once nothing is on its way.
    ///
    /// # Errors
    /// The first message that is lost or came out wrongly; sums that disagree.
    pub fn check_balance(&self) -> Result<Balance, BrokenInvariant> {
        let mut balance = Balance::default();
        for (n, subject) in self.subjects.iter().enumerate() {
            let (processed, records) = (subject.processed, subject.final_records);
            if subject.copies_out() == 0 {
                return Err(format!("message {n} is lost: it is neither processed nor in the final DLQ"));
            }
            if subject.produced.expected != ExpectedEnd::Handled && processed > 0 {
                return Err(format!("message {n} is invalid, and was processed"));
            }
            if self.knobs.makes_no_copies() && subject.copies_out() != subject.sends {
                return Err(format!(
                    "message {n}: {processed} processed, {records} final records, and no fault allows it"
                ));
            }
            balance.messages += u64::from(subject.sends);
            balance.processed += u64::from(processed);
            balance.final_records += u64::from(records);
            balance.moved_unannotated += u64::from(subject.moved_unannotated);
            balance.archived += u64::from(self.archived_deaths(n)?);
            balance.copies += u64::from(subject.copies_out().saturating_sub(subject.sends));
        }
        let local = &self.local;
        let reported = Balance {
            messages: local.total_sent(),
            processed: local.total_processed(),
            final_records: local.dead_letters().values().sum(),
            copies: local.copy_count(),
            ..balance
        };
        let settled: u32 = self.subjects.iter().map(|subject| subject.copies_out().min(subject.sends)).sum();
        let same = local.settled_count() == u64::from(settled) && *local.dead_letters() == self.by_error_type;
        if reported != balance || !same {
            return Err(format!("the tracker of `redeliver local` says {reported:?}, and it is {balance:?}"));
        }
        Ok(balance)
    }
}
