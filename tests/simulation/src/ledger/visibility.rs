//! Checks for the strategy `visibility`: a failed message stays hidden on its queue, or the message-processor itself
//! gives up on it.

use chrono::{DateTime, TimeDelta, Utc};

use super::calls::CallResponse;
use super::copies::StatedFailure;
use super::last_call::RetryDelays;
use super::oracle::RetryKey;
use super::sends::{Send, check_no_delay};
use super::{Actor, BrokenInvariant, Ledger, QueuePlace};
use crate::messages::ExpectedOutcome;
use crate::policy::{CallOutcome, DELAY_SECONDS_MAX, FailureClass, TargetDelay};

impl Ledger {
    /// Checks that a visibility change follows a failure in the same invocation and complies with the policy.
    pub(super) fn check_visibility_change(
        &mut self,
        actor: Actor,
        id: &str,
        place: QueuePlace,
        seconds: u16,
        at: DateTime<Utc>,
    ) -> Result<(), BrokenInvariant> {
        if (actor, place) == (Actor::Redrive, QueuePlace::Final) {
            return Ok(()); // ends a lease
        }
        let copy = self.find_copy(id)?.clone();
        let (n, ..) = self.copies[id];
        let wrong = |why: String| format!("{actor:?} hid message {n} in {place:?} for {seconds} s: {why}");
        if (actor, place) != (Actor::MessageProcessor, QueuePlace::Source) || !self.knobs.uses_visibility() {
            return Err(wrong("no visibility change is expected there".to_owned()));
        }
        if self.expected_outcome(n) != ExpectedOutcome::Handled {
            return Err(wrong("it is invalid".to_owned()));
        }
        if !self.current_work(n).is_some_and(|work| work.has_deliveries()) {
            return Err(wrong("its invocation did not receive it".to_owned()));
        }
        let retries = copy.retries.ok_or_else(|| wrong("its body cannot be read".to_owned()))?;
        let retries =
            if copy.came_back { retries.for_next_generation(copy.recorded_generation) } else { retries };
        let generation = retries.generation.unwrap_or(0);
        let current = self.current_invocation;
        let of_this_call =
            |answer: &&CallResponse| answer.invocation == current && answer.generation == generation;
        let answers: Vec<_> = self.subjects[n].answers.iter().filter(of_this_call).cloned().collect();
        // A call that was cut off or not started has no answer. Its attempt can be any number that the queue has
        // counted.
        let silent = (0..copy.receives).map(|attempt| CallResponse {
            invocation: current,
            generation,
            attempt,
            kind: "",
            error_type: "",
            after: None,
            unavailable: false,
            environment: None,
            is_cut_off: false,
            outcome: None,
        });
        let candidates = answers.iter().cloned().chain(silent);
        let limit = self.age_limit(n, retries.first_sent(copy.sent_at));
        let refusals: Vec<_> = candidates
            .map(|answer| self.check_hiding(n, &answer, copy.receives, seconds, [copy.sent_at, at], limit))
            .collect();
        let Some(attempt) = refusals.iter().find_map(|refusal| refusal.as_ref().ok()).copied() else {
            return Err(wrong(format!("the change does not follow: {refusals:?}")));
        };
        // If the invocation received another copy, the answer might belong to that copy.
        let is_one = self.received_single_copy(n);
        let subject = &mut self.subjects[n];
        let allowed = refusals.iter().filter_map(|refusal| refusal.as_ref().ok());
        subject.resent.extend(allowed.map(|attempt| attempt + 1));
        // With a single answer and no delay requested by the target, all copies have the same delay.
        let [answer] = &answers[..] else { return Ok(()) };
        let is_clear = answer.after.is_none() && answer.attempt == attempt && answer.kind == "transient";
        // Held copies are hidden for different lengths of time.
        let is_clear = is_clear
            && is_one
            && answer.outcome.as_ref().is_none_or(|outcome| outcome.met == CallOutcome::Answer);
        let seconds = u64::from(seconds);
        let key = RetryKey { generation, attempt: attempt + 1, ..RetryKey::default() };
        if is_clear && *subject.delays.entry(key).or_insert(seconds) != seconds {
            return Err(format!("a copy of message {n} is hidden for {seconds} s, but another copy was not"));
        }
        Ok(())
    }

    /// Returns the failed attempt if this answer explains the visibility change.
    fn check_hiding(
        &self,
        n: usize,
        answer: &CallResponse,
        receives: u32,
        seconds: u16,
        [sent_at, at]: [DateTime<Utc>; 2],
        limit: Option<DateTime<Utc>>,
    ) -> Result<u32, BrokenInvariant> {
        let policy = &self.knobs.policy;
        let CallResponse { attempt, kind, error_type, after, .. } = *answer;
        let class = match kind {
            "" => policy.failure_class("transient", "Timeout"),
            _ => policy.failure_class(kind, error_type),
        };
        let not_started = kind.is_empty();
        if class == FailureClass::Permanent && !not_started {
            return Err("it failed permanently".to_owned());
        }
        if attempt >= receives {
            return Err(format!("attempt {attempt} was not received"));
        }
        if attempt >= self.max_attempts(n).0 {
            return Err("it has no retries left".to_owned());
        }
        let retry = RetryKey { generation: answer.generation, attempt: attempt + 1, ..RetryKey::default() };
        let end = self.message_expiry(sent_at, limit);
        let delays = self.visibility_delays(n, retry, TargetDelay::from_failure(kind, after));
        let (mut least, mut most) = delays.delay_range(Some(end - at), self.time_tolerance());
        let may_be_held =
            not_started || answer.outcome.as_ref().is_some_and(|outcome| outcome.met != CallOutcome::Answer);
        // The message is hidden until the end of its hold, if that is later than the backoff.
        if may_be_held && self.knobs.breaker_model().is_some() {
            let floor =
                answer.outcome.as_ref().map(|outcome| TargetDelay::Floor(self.shortest_hold(outcome, at)));
            least =
                self.visibility_delays(n, retry, floor).delay_range(Some(end - at), self.time_tolerance()).0;
            let hold = self.visibility_delays(n, retry, Some(TargetDelay::Floor(DELAY_SECONDS_MAX)));
            most = most.max(hold.delay_range(Some(end - at), self.time_tolerance()).1);
        }
        if !(least..=most).contains(&u64::from(seconds)) {
            return Err(format!("the delay must be in {least}..={most}"));
        }
        let next = at + TimeDelta::seconds(seconds.into());
        if next > end + self.time_tolerance() { Err(format!("{next} is after {end}")) } else { Ok(attempt) }
    }

    /// Returns the time at which a message expires: its age limit, or one visibility timeout before the end of its
    /// seven-day retention, whichever is earlier.
    fn message_expiry(&self, sent_at: DateTime<Utc>, limit: Option<DateTime<Utc>>) -> DateTime<Utc> {
        let retained = sent_at + TimeDelta::days(7) - super::time_delta(self.knobs.visibility_seconds());
        limit.map_or(retained, |limit| limit.min(retained))
    }

    /// Returns the delays of a retry, limited so that they end within the twelve hours for which SQS can hide a
    /// received message.
    fn visibility_delays(&self, n: usize, key: RetryKey, asked: Option<TargetDelay>) -> RetryDelays {
        self.retry_delays(n, key, asked).at_most(43_200 - self.knobs.visibility_seconds())
    }

    /// Checks the verdict on a message that was received more often than the policy allows, because an earlier receiver
    /// did not respond.
    fn check_unanswered(
        &self,
        send: Send<'_>,
        failure: &StatedFailure,
        attempts: u32,
    ) -> Result<(), BrokenInvariant> {
        let origin = self.origins.get(&self.source_delivery(send, failure));
        let origin = origin.filter(|origin| origin.subject == send.n && origin.body_hash == send.hash);
        let origin = origin.ok_or("it names another message")?;
        let (max_attempts, whose) = self.max_attempts(send.n);
        let follows = failure.text_member("verdict") == "RETRY_ATTEMPT_EXCEEDED"
            && attempts > max_attempts
            && attempts < origin.receives
            && failure.first_sent_time().is_none_or(|sent_at| sent_at == origin.sent_at)
            && failure.starts_new_generation() == origin.came_back
            && failure.generation_before() == origin.recorded_generation
            && (self.subjects[send.n].is_oversize()
                || failure.text_member("explanation")
                    == format!("Max retry attempts {max_attempts} exceeded{whose}"));
        if follows { Ok(()) } else { Err(format!("{failure:?} does not follow")) }
    }

    /// Checks the message-processor's verdict on a valid message.
    pub(super) fn check_own_verdict(&mut self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        check_no_delay(send)?;
        self.check_attributes_kept(send, "Failure")?;
        let failure = StatedFailure::from_attributes(&send.content.attributes).ok_or("without a verdict")?;
        let oversize = self.subjects[send.n].is_oversize();
        failure.check_size(oversize)?;
        if failure.text_member("kind").is_empty() && oversize {
            return Ok(()); // omitted for lack of room
        }
        let attempts = failure.attempt_count().unwrap_or(0);
        if failure.text_member("type") == "Redrive" {
            return self.check_unanswered(send, &failure, attempts);
        }
        self.check_call_failure(send, &failure)?;
        let class = self.knobs.policy.failure_class(failure.text_member("kind"), failure.text_member("type"));
        let (max_attempts, whose) = self.max_attempts(send.n);
        let exhausted = attempts >= max_attempts;
        let follows = match failure.text_member("verdict") {
            "NON_RETRYABLE_ERROR" => class == FailureClass::Permanent,
            _ if class == FailureClass::Permanent => false,
            "RETRY_ATTEMPT_EXCEEDED" => {
                exhausted
                    && (oversize
                        || failure.text_member("explanation")
                            == format!("Max retry attempts {max_attempts} exceeded{whose}"))
            }
            _ if exhausted => false,
            "MESSAGE_EXPIRED" => {
                let origin = &self.origins[&self.source_delivery(send, &failure)];
                let retries = send.body.map(|body| body.retries.clone()).unwrap_or_default();
                let retries = match origin.came_back {
                    true => retries.for_next_generation(origin.recorded_generation),
                    false => retries,
                };
                let generation = retries.generation.unwrap_or(0);
                let key = RetryKey { generation, attempt: attempts + 1, ..RetryKey::default() };
                let asked = TargetDelay::from_failure(failure.text_member("kind"), failure.retry_after());
                let limit = self.age_limit(send.n, retries.first_sent(origin.sent_at));
                // The decision precedes the send, but the deciding process's clock might be ahead.
                let decided = send.at + self.clock_skew();
                let delays = self.visibility_delays(send.n, key, asked);
                let due = |delay| decided + super::time_delta(delay);
                delays.may_give_up(due, self.message_expiry(origin.sent_at, limit), decided)
            }
            _ => false,
        };
        if follows { Ok(()) } else { Err(format!("{failure:?} does not follow")) }
    }
}
