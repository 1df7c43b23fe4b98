//! Concurrent rounds: journal, send, journal, delete. One journal write covers all steps that wait for it.

use std::time::Duration;

use redeliver_core::deliver::DeliveryOutcome;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::RedriveRun;
use super::flow::{Candidate, FlowEvent, RedriveFlow, SentLetter};
use super::phase::{Phase, SENDING_MAX};
use crate::redrive::journal::{JournalEntry, JournalError};
use crate::redrive::plan::StayReason;
use crate::redrive::report::EarlyEnd;
use crate::redrive::task::RedriveProgress;
use crate::{DeadLetterError, DeadLetterReader, DeadLetterRecord};

/// The number of consecutive failed sends after which the run ends. It also limits the sends in progress, and so the
/// number of futile sends.
const SENDS_FAILED_MAX: u64 = SENDING_MAX;

impl<'a, D: Queue, S: QueueSender + QueueDepth, C: Clock> RedriveRun<'_, 'a, D, S, C> {
    /// Writes completed steps and the next intents to the journal in one write, then starts the next steps.
    pub(super) fn dispatch_round(
        &mut self,
        round: Vec<Candidate>,
        flow: &mut RedriveFlow<'a>,
        reader: &DeadLetterReader<'a, D, C>,
    ) -> Result<(), JournalError> {
        flow.entries.extend(round.iter().map(Candidate::intent_entry));
        // No message is sent before its intent is on disk, so every send leaves a trace; and none is deleted before its
        // outcome is on disk. If the process dies after this line,
        // - the journal has at most 100 intents without an outcome: the next run sends these again, and reports them as
        //   possible copies (with the same `message_id`), and none is lost;
        // - at most 160 messages are in both queues, and the journal records them as sent: the next run deletes them.
        self.journal.write_entries(&std::mem::take(&mut flow.entries))?;
        flow.delete_sent(reader);
        flow.send_round(round, self.redrive.source, self.redrive.clock);
        Ok(())
    }

    /// Returns the messages to send now, given the rate, the limits, and the sends in progress.
    pub(super) fn next_round(
        &mut self,
        flow: &mut RedriveFlow<'a>,
        reader: &DeadLetterReader<'a, D, C>,
    ) -> Vec<Candidate> {
        let (now, limits) = (self.redrive.clock.now(), self.redrive.limits);
        let wanted = self.round_size(flow);
        // With a rate, complete rounds are sent at regular intervals.
        let is_early = now < self.next_round_at || ((flow.waiting.len() as u64) < wanted && !flow.all_read);
        if limits.rate.is_some() && is_early {
            return Vec::new();
        }
        // Assumes that all sends in progress fail.
        let may_fail = SENDS_FAILED_MAX.saturating_sub(self.sends_failed + flow.sending);
        let room = wanted.min(may_fail).min(flow.free_slots());
        let mut round = Vec::new();
        while (round.len() as u64) < room
            && let Some(candidate) = flow.take_next(&round)
        {
            // If the message is visible again, another program may have received it: it may already have been sent, and
            // it could not be deleted.
            if reader.is_hidden(&candidate.record.message) {
                round.push(candidate);
            } else {
                self.reappeared_before_send += 1;
                self.report.count_reappeared(candidate.id());
            }
        }
        if let Some(rate) = limits.rate {
            self.next_round_at = now + Duration::from_secs_f64(round.len() as f64 / f64::from(rate));
        }
        round
    }

    /// Returns the desired size of the next round.
    pub(super) fn round_size(&self, flow: &RedriveFlow<'a>) -> u64 {
        self.phase.round_size(self.redrive.limits, self.report.sent + flow.sending)
    }

    /// Applies an event to the counts and the journal.
    pub(super) fn apply_event(
        &mut self,
        event: FlowEvent,
        flow: &mut RedriveFlow<'a>,
        reader: &mut DeadLetterReader<'a, D, C>,
    ) -> Result<(), DeadLetterError> {
        match event {
            FlowEvent::Read(messages) => match messages? {
                Some(messages) => {
                    self.seen_in_pass += messages.len() as u64;
                    let (seen, approximate) = (self.seen_in_pass, reader.approximate_count());
                    (self.redrive.progress)(RedriveProgress::Read { seen, approximate });
                    self.queue_messages(messages, flow)?;
                }
                None => flow.all_read = true,
            },
            FlowEvent::Sent(sent) => self.record_sends(sent, flow),
            FlowEvent::Deletion(sent, answers) => {
                let outcomes = reader.confirm_deletions(answers);
                let before =
                    sent.iter().zip(&outcomes).filter(|(sent, outcome)| sent.sent_earlier && outcome.is_ok());
                self.report.deleted_only += before.count() as u64;
                let records = sent.into_iter().map(|sent| sent.record).collect();
                // Recorded afterwards: if the process dies before this is on disk, the next run finds the messages gone
                // and records that itself.
                flow.entries.extend(self.deletions.count_outcomes(records, outcomes));
            }
            FlowEvent::RoundIsDue => {}
        }
        Ok(())
    }

    /// Queues messages to be sent or deleted.
    fn queue_messages(
        &mut self,
        messages: Vec<ReceivedMessage>,
        flow: &mut RedriveFlow<'a>,
    ) -> Result<(), DeadLetterError> {
        for record in messages.into_iter().map(DeadLetterRecord::new) {
            // A message that was sent according to the journal is never sent again, only deleted. This lets a second
            // run finish the work of the first.
            if self.journal.was_sent(&record.message.sqs_message_id) {
                let _is_named = self.redrive.plan.pick.observe_record(&record);
                flow.sent.push(SentLetter { record, sent_earlier: true });
            } else if self.phase != Phase::Finish {
                flow.waiting.extend(self.classify_record(record)?);
            }
        }
        Ok(())
    }

    /// Returns the dead letter if it is to be sent back; otherwise counts it and returns `None`.
    fn classify_record(&mut self, record: DeadLetterRecord) -> Result<Option<Candidate>, DeadLetterError> {
        if self.redrive.can_come_back && self.journal.has_come_back(&record) {
            self.report.count_returned_message(record.message_id(), &record);
            (self.redrive.progress)(RedriveProgress::CameBack(self.report.returned_count()));
            return Ok(None);
        }
        let sqs_message_id = &record.message.sqs_message_id;
        let Some(send_back) = self.redrive.plan.decide_and_count(&record, &mut self.report)? else {
            return Ok(None);
        };
        if self.journal.may_have_other_id(sqs_message_id, &send_back.message_id) {
            self.report.count_staying(sqs_message_id, StayReason::AnotherId.to_string());
            return Ok(None);
        }
        Ok(Some(Candidate { record, send_back }))
    }

    fn record_sends(&mut self, sent: Vec<(Candidate, DeliveryOutcome<String>)>, flow: &mut RedriveFlow<'a>) {
        let mut confirmed = Vec::with_capacity(sent.len());
        for (candidate, DeliveryOutcome { outcome, ambiguous_sends: sends }) in sent {
            let sqs_message_id = candidate.id().to_owned();
            match outcome {
                Ok(sent_as) => {
                    self.sends_failed = 0;
                    self.report.count_sent(&candidate.record, &candidate.send_back);
                    flow.entries.push(JournalEntry::Sent { sqs_message_id, sent_as, sends });
                    confirmed.push(candidate.record);
                }
                Err(error) => {
                    self.sends_failed += 1;
                    self.report.count_not_sent(candidate.id(), &error);
                    if self.sends_failed >= SENDS_FAILED_MAX {
                        let why =
                            format!("{SENDS_FAILED_MAX} sends in a row failed, the last one with {error}");
                        self.report.early_end = Some(EarlyEnd::Failed(why));
                    }
                    flow.entries.push(JournalEntry::NotSent { sqs_message_id, code: error.code, sends });
                }
            }
        }
        flow.sent.extend(confirmed.into_iter().map(|record| SentLetter { record, sent_earlier: false }));
        (self.redrive.progress)(RedriveProgress::Sent(self.report.sent));
    }
}
