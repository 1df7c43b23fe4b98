//! Checks of removals from a queue: SQS's redrive and deletions.

use super::{BrokenInvariant, Ledger, QueuePlace};

impl Ledger {
    /// Checks a redrive by SQS: the receive count must have reached its limit, and after the faults, a message that
    /// healthy processes received must not be moved.
    pub(super) fn check_move(
        &mut self,
        id: &str,
        from: QueuePlace,
        to: QueuePlace,
    ) -> Result<(), BrokenInvariant> {
        let (limit, expected) = match from {
            QueuePlace::Source if self.knobs.uses_visibility() || self.knobs.uses_async_retry() => {
                (self.knobs.source_max_receive_count(), QueuePlace::Annotation)
            }
            QueuePlace::Source => (self.knobs.source_max_receive_count(), QueuePlace::Intermediate),
            QueuePlace::Intermediate => (100, QueuePlace::Annotation),
            QueuePlace::Annotation => (self.knobs.annotation_max_receive_count().into(), QueuePlace::Final),
            QueuePlace::Final => return Err(format!("{id} was moved out of the final DLQ")),
        };
        let mut copy = self.find_copy(id)?.clone();
        let n = self.take_copy(id)?;
        let subject = &self.subjects[n];
        let healthy = copy.receives - copy.receives_in_faults;
        copy.redriven = true;
        let (receives, body) = (copy.receives, subject.produced.content.body.clone());
        if to == QueuePlace::Final {
            self.record_final_record(n, &copy, &body);
            self.subjects[n].moved_unannotated += 1;
        }
        self.put_copy(n, to, id.to_owned(), copy);
        if to != expected || receives < limit {
            return Err(format!("message {n} was moved from {from:?} to {to:?} after {receives} receives"));
        }
        // This also applies to messages of the maximum size: an answered call is repeated only after a re-send.
        if self.healed_at.is_some() && healthy >= 2.min(limit) {
            return Err(format!(
                "message {n} was moved out of {from:?} though {healthy} healthy processes received it"
            ));
        }
        Ok(())
    }

    /// Checks the main rule: a message is deleted only if it is processed or confirmed to be in another queue.
    pub(super) fn check_deletion(&mut self, id: &str, place: QueuePlace) -> Result<(), BrokenInvariant> {
        let n = self.take_copy(id)?;
        let allowed = match self.current_work(n) {
            Some(work) => work.spend_credit(),
            None => {
                let credit = &mut self.subjects[n].credit;
                let spent = credit.checked_sub(1).ok_or_else(|| "it was not sent back".to_owned());
                spent.map(|left| *credit = left)
            }
        };
        allowed.map_err(|why| format!("message {n} was deleted from {place:?}: {why}"))?;
        let subject = &self.subjects[n];
        if subject.live.iter().sum::<u32>() + subject.in_lambda == 0 && subject.processed == 0 {
            return Err(format!("message {n} is lost: its last copy was deleted from {place:?}"));
        }
        Ok(())
    }
}
