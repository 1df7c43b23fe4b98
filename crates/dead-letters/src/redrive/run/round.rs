//! Rounds, side by side: on disk, sent, on disk, deleted. One write to the journal serves all that waits for it.

use std::time::Duration;

use redeliver_core::deliver::Delivered;
use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::Run;
use super::flow::{Event, Flow, Going, Sent};
use super::phase::{Phase, SENDING_MAX};
use crate::redrive::journal::{Entry, JournalError};
use crate::redrive::report::Early;
use crate::redrive::task::Progress;
use crate::{DeadLetterRecord, Failure, Reader};

/// Stop after this many sends in a row without a confirmed one. No more than that are under way at a time, so that no
/// more are tried in vain.
const SENDS_FAILED_MAX: u64 = SENDING_MAX;

impl<'a, D: Queue, S: QueueSender + QueueDepth, C: Clock> Run<'_, 'a, D, S, C> {
    /// Writes to the journal what was done, and what is to be done next, in one go; then begins it. If `is_over`,
    /// nothing more is sent.
    pub(super) fn go_on(
        &mut self,
        flow: &mut Flow<'a>,
        reader: &Reader<'a, D, C>,
        is_over: bool,
    ) -> Result<(), JournalError> {
        let round = if is_over { Vec::new() } else { self.next_round(flow, reader) };
        flow.entries.extend(round.iter().map(Going::intent));
        // No message leaves before its intent is on disk, so no send is without a trace; and none is deleted before its
        // outcome is on disk. If the process dies after this line,
        // - the journal has at most 100 intents without an outcome: the next run sends these again, and reports them as
        //   possible copies (the same `message_id`), never a loss;
        // - at most 160 messages are in both queues, and the journal says that they were sent: the next run deletes them.
        self.journal.write(&std::mem::take(&mut flow.entries))?;
        flow.delete(reader);
        flow.send(round, self.redrive.source, self.redrive.clock);
        Ok(())
    }

    /// The messages that may be sent now, by the rate, the limits, and what is under way.
    fn next_round(&mut self, flow: &mut Flow<'a>, reader: &Reader<'a, D, C>) -> Vec<Going> {
        let (now, limits) = (self.redrive.clock.now(), self.redrive.limits);
        let wanted = self.round(flow);
        // By the rate a round goes every so often, as a whole.
        let is_early = now < self.next_round_at || ((flow.going.len() as u64) < wanted && !flow.all_read);
        if limits.rate.is_some() && is_early {
            return Vec::new();
        }
        // As if all that is being sent would fail.
        let may_fail = SENDS_FAILED_MAX.saturating_sub(self.sends_failed + flow.sending);
        let room = wanted.min(may_fail).min(flow.room());
        let mut round = Vec::new();
        while (round.len() as u64) < room
            && let Some(going) = flow.take(&round)
        {
            // Somebody else may have received it since: then it is perhaps sent already, and could not be deleted.
            if reader.is_hidden(&going.record.message) {
                round.push(going);
            } else {
                self.no_longer_hidden += 1;
                self.comes_out_again = true;
                self.report.no_longer_hidden(going.id());
            }
        }
        if let Some(rate) = limits.rate {
            self.next_round_at = now + Duration::from_secs_f64(round.len() as f64 / f64::from(rate));
        }
        round
    }

    /// Messages that the next round is to have, if there is room.
    pub(super) fn round(&self, flow: &Flow<'a>) -> u64 {
        self.phase.round(self.redrive.limits, self.report.sent + flow.sending)
    }

    /// Counts what has happened.
    pub(super) fn take_in(
        &mut self,
        event: Event,
        flow: &mut Flow<'a>,
        reader: &mut Reader<'a, D, C>,
    ) -> Result<(), Failure> {
        match event {
            Event::Read(messages) => match messages? {
                Some(messages) => {
                    for record in messages.into_iter().map(DeadLetterRecord::new) {
                        // A message that is sent according to the journal is never sent again by any run, only deleted.
                        // This lets a second run finish the first one's work.
                        if self.journal.was_sent(&record.message.sqs_message_id) {
                            let _is_named = self.redrive.plan.pick.observe(&record);
                            flow.sent.push(Sent { record, before: true });
                        } else if self.phase != Phase::Finish {
                            flow.going.extend(self.sorted(record)?);
                        }
                    }
                }
                None => flow.all_read = true,
            },
            Event::Sent(sent) => self.sent(sent, flow),
            Event::Deletion(sent, answers) => {
                let outcomes = reader.deleted(answers);
                let before =
                    sent.iter().zip(&outcomes).filter(|(sent, outcome)| sent.before && outcome.is_ok());
                self.report.deleted_only += before.count() as u64;
                let records = sent.into_iter().map(|sent| sent.record).collect();
                // After the fact: if the process dies before this is on disk, the next run finds them gone and says so
                // in the journal itself.
                flow.entries.extend(self.deletions.count(records, outcomes));
            }
            Event::RoundIsDue => {}
        }
        Ok(())
    }

    fn sent(&mut self, sent: Vec<(Going, Delivered<String>)>, flow: &mut Flow<'a>) {
        let mut confirmed = Vec::with_capacity(sent.len());
        for (going, Delivered { outcome, perhaps_done: sends }) in sent {
            let sqs_message_id = going.id().to_owned();
            match outcome {
                Ok(sent_as) => {
                    self.sends_failed = 0;
                    self.report.sent(&going.record, &going.send_back);
                    flow.entries.push(Entry::Sent { sqs_message_id, sent_as, sends });
                    confirmed.push(going.record);
                }
                Err(error) => {
                    self.sends_failed += 1;
                    self.report.not_sent(going.id(), &error);
                    if self.sends_failed >= SENDS_FAILED_MAX {
                        let why =
                            format!("{SENDS_FAILED_MAX} sends in a row failed, the last one with {error}");
                        self.report.early = Some(Early::Failed(why));
                    }
                    flow.entries.push(Entry::NotSent { sqs_message_id, code: error.code, sends });
                }
            }
        }
        flow.sent.extend(confirmed.into_iter().map(|record| Sent { record, before: false }));
        (self.redrive.progress)(Progress::Sent(self.report.sent));
    }
}
