//! The expected consequences of a failed message, according to the documentation.

use chrono::{DateTime, Datelike as _, SubsecRound as _, TimeDelta, Utc};

use super::body::{LedgerBody, RetryMembers};
use super::copies::{StatedFailure, StatedOutage};
use super::sends::Send;
use super::{BrokenInvariant, Copy, Ledger, time_delta};
use crate::messages::ExpectedOutcome;
use crate::policy::{DELAY_SECONDS_MAX, FailureClass, TargetDelay};

/// A message in the intermediate DLQ, as the failed-message-processor must interpret it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RetryCase {
    pub(super) body_hash: u64,
    /// The retry members before the next retry, in the current generation.
    before: RetryMembers,
    /// `SentTimestamp` of the delivery that failed.
    sent_at: DateTime<Utc>,
    class: FailureClass,
    spends: RetryBudget,
    /// True if a call was answered, so that the count of SQS's moves restarts at 0.
    is_answered: bool,
    error_type: String,
    details: String,
    asked: Option<TargetDelay>,
    /// The shortest and the longest hold in seconds, before any limit.
    hold: (u64, u64),
    /// The outage for which the message is held, if its hand-off states one.
    outage: Option<StatedOutage>,
    /// True if the case was read from a hand-off.
    is_handed_off: bool,
    /// Start of a long delay.
    failed_at: DateTime<Utc>,
    /// True if a document contains the time of the failure, to the millisecond.
    has_time: bool,
    /// Due time of the retry, if the message has hopped.
    due: Option<DateTime<Utc>>,
}

/// The error types of messages that were held without a call.
pub(super) const NOT_CALLED: [&str; 2] = ["CircuitOpen", "RateLimited"];

/// The budget that the next re-send spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryBudget {
    Attempt,
    Snooze,
    Hold,
    Redrive,
}

/// The identity of a retry: all of its copies have the same delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RetryKey {
    pub(super) generation: u32,
    pub(super) attempt: u32,
    /// Set if the retry spends no attempt and its delay is not the policy's backoff.
    pub(super) unspent: Option<FreeResend>,
}

/// Re-sends that spend no attempt and do not use the policy's backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FreeResend {
    Hold,
    Redrive { count: u32 },
}

/// The reason why a send does not follow from a case. Formatted only if the send follows from no case, because a
/// message can have many copies.
type LazyViolation<'a> = Box<dyn Fn() -> BrokenInvariant + 'a>;

fn lazy_violation<'a>(why: impl Fn() -> BrokenInvariant + 'a) -> LazyViolation<'a> {
    Box::new(why)
}

fn is_answered(class: FailureClass, kind: &str) -> bool {
    class == FailureClass::Transient || kind == "snooze"
}

/// Extends a hold of more than a minute so that it ends at a multiple of ten seconds. `decided_at` is a Unix time.
fn extend_to_grid(seconds: u64, decided_at: u64) -> u64 {
    if seconds > 60 { seconds + (10 - (decided_at + seconds) % 10) % 10 } else { seconds }
}

impl RetryCase {
    /// Returns true if the message is held: its target is down or currently accepts no more calls.
    pub(super) fn is_held(&self) -> bool {
        self.class == FailureClass::Held
    }

    pub(super) fn retries_before(&self) -> &RetryMembers {
        &self.before
    }

    pub(super) fn error_type(&self) -> &str {
        &self.error_type
    }

    /// Returns the case as it was before the message hopped.
    pub(super) fn before_hop(&self) -> Self {
        Self { due: None, ..self.clone() }
    }

    /// Returns true if the message was held without a call, so that it is re-sent directly.
    pub(super) fn was_held_without_call(&self) -> bool {
        self.is_held() && NOT_CALLED.contains(&self.error_type.as_str())
    }

    /// Returns the same case with this range for the hold.
    pub(super) fn with_hold(self, hold: (u64, u64)) -> Self {
        Self { hold, ..self }
    }

    fn spends_attempt(&self) -> bool {
        self.spends == RetryBudget::Attempt
    }

    /// Returns the key of the delay.
    pub(super) fn retry_key(&self) -> RetryKey {
        let RetryMembers { generation, attempt, .. } = self.before;
        let redrives_unanswered = self.before.redrives_since_answer();
        let unspent = match self.spends {
            RetryBudget::Attempt | RetryBudget::Snooze => None,
            RetryBudget::Hold => Some(FreeResend::Hold),
            RetryBudget::Redrive => Some(FreeResend::Redrive { count: redrives_unanswered + 1 }),
        };
        RetryKey { generation: generation.unwrap_or(0), attempt: attempt + 1, unspent }
    }

    /// Returns true if the re-send's `first_sent_time` matches this case. Checked first because it excludes most
    /// copies.
    pub(super) fn matches_first_sent_time(&self, body: &LedgerBody) -> bool {
        body.retries.first_sent == Some(self.before.first_sent(self.sent_at))
    }

    /// Returns true if the delay can be long: it then starts at the failure and is spent in hops.
    fn may_have_long_delay(&self) -> bool {
        matches!(self.spends, RetryBudget::Attempt | RetryBudget::Snooze)
    }
}

impl Ledger {
    /// Returns the case of a copy received from the intermediate DLQ, or `None` if its body is not a message.
    pub(super) fn read_case(&self, copy: &Copy) -> Option<RetryCase> {
        let failure = copy.trusted_failure();
        let said = |name, otherwise| failure.map_or(otherwise, |failure| failure.text_member(name));
        let retries = copy.retries.clone()?;
        let came_back = failure.is_some_and(StatedFailure::starts_new_generation) || copy.came_back;
        let generation_before =
            failure.and_then(StatedFailure::generation_before).max(copy.recorded_generation);
        let before = if came_back { retries.for_next_generation(generation_before) } else { retries };
        let before =
            if failure.is_some_and(StatedFailure::is_from_producer) { before.for_producer() } else { before };
        let unexplained = if copy.redriven { "unanswered" } else { "transient" };
        let kind = said("kind", unexplained);
        let error_type = said("type", "Redrive");
        let class = self.knobs.policy.failure_class(kind, error_type);
        Some(RetryCase {
            body_hash: copy.body_hash,
            sent_at: failure.and_then(StatedFailure::first_sent_time).unwrap_or(copy.sent_at),
            class,
            is_answered: is_answered(class, kind),
            spends: Self::spent_budget(class, &before),
            before,
            error_type: error_type.to_owned(),
            details: said("details", "").to_owned(),
            asked: TargetDelay::from_failure(said("kind", ""), failure.and_then(StatedFailure::retry_after)),
            hold: failure
                .and_then(StatedFailure::retry_after)
                .map_or((1, DELAY_SECONDS_MAX), |asked| (asked, asked)),
            outage: failure.and_then(StatedFailure::reported_outage),
            is_handed_off: true,
            failed_at: failure
                .and_then(|failure| failure.time_member("failed_at"))
                .or(copy.first_received)
                .unwrap_or(copy.sent_at),
            has_time: true,
            // A hand-off with folded attributes has a due time in the year 9999, which never comes.
            due: failure.and_then(|failure| failure.time_member("due_at")).filter(|due| due.year() < 9999),
        })
    }

    /// Returns the case of a copy in the source queue after a failure with this kind, error type and requested delay.
    pub(super) fn source_case(
        &self,
        copy: &Copy,
        before: RetryMembers,
        (kind, error_type, retry_after): (&str, &str, Option<u64>),
        sent_again_at: DateTime<Utc>,
    ) -> RetryCase {
        let class = self.knobs.policy.failure_class(kind, error_type);
        RetryCase {
            body_hash: copy.body_hash,
            sent_at: copy.sent_at,
            class,
            is_answered: is_answered(class, kind),
            spends: Self::spent_budget(class, &before),
            before,
            error_type: error_type.to_owned(),
            details: String::new(),
            asked: TargetDelay::from_failure(kind, retry_after),
            hold: (1, DELAY_SECONDS_MAX),
            outage: None,
            is_handed_off: false,
            // The exact time is unknown: the message failed shortly before, and the clock that timed it might be ahead.
            failed_at: sent_again_at + self.clock_skew(),
            has_time: false,
            due: None,
        }
    }

    fn spent_budget(class: FailureClass, before: &RetryMembers) -> RetryBudget {
        match class {
            FailureClass::Moved => RetryBudget::Redrive,
            FailureClass::Held => RetryBudget::Hold,
            FailureClass::Free if before.snoozes < 100 => RetryBudget::Snooze,
            _ => RetryBudget::Attempt,
        }
    }

    /// Returns the cases of a message so far, newest first because most sends follow from the newest.
    pub(super) fn cases_newest_first(&self, n: usize) -> impl Iterator<Item = &RetryCase> {
        self.subjects[n].cases.iter().rev()
    }

    pub(super) fn check_resend_from_case<'a>(
        &self,
        case: &'a RetryCase,
        body: &'a LedgerBody,
        send: Send<'_>,
    ) -> Result<(), LazyViolation<'a>> {
        let delay = send.content.delay.get();
        let before = &case.before;
        let is = |spends| case.spends == spends;
        let first_sent = before.first_sent(case.sent_at);
        let counts = RetryMembers {
            attempt: before.attempt + u32::from(is(RetryBudget::Attempt)),
            snoozes: before.snoozes + u32::from(is(RetryBudget::Snooze)),
            held_seconds: before.held_seconds + if is(RetryBudget::Hold) { delay.into() } else { 0 },
            redrives: before.redrives + u32::from(is(RetryBudget::Redrive)),
            redrives_answered: before.redrives
                - if case.is_answered { 0 } else { before.redrives_since_answer() },
            generation: before.generation,
            ..RetryMembers::default()
        };
        if !counts.has_same_counts(&body.retries) {
            // The re-send is for another retry. Not formatted, because a message can have many copies.
            return Err(lazy_violation(String::new));
        }
        if case.class == FailureClass::Permanent {
            return Err(lazy_violation(|| "it failed permanently".to_owned()));
        }
        let (max_attempts, _) = self.max_attempts(send.n);
        if case.spends_attempt() && before.attempt >= max_attempts {
            return Err(lazy_violation(move || format!("it has used its {max_attempts} retries")));
        }
        if is(RetryBudget::Hold) && self.has_reached_hold_limit(before, &case.error_type) {
            return Err(lazy_violation(|| "it has reached its hold limit".to_owned()));
        }
        if is(RetryBudget::Redrive) && self.redrive_refusal(before).is_some() {
            return Err(lazy_violation(|| "SQS has moved it too often".to_owned()));
        }
        if !case.matches_first_sent_time(body) {
            return Err(lazy_violation(move || format!("it was first sent at {first_sent}")));
        }
        self.check_outage(case, body, send)?;
        self.check_history(case, body, send.n)?;
        let missing = || lazy_violation(|| "next_retry_time is missing".to_owned());
        let next = body.retries.next_retry.ok_or_else(missing)?;
        if self.knobs.policy.long_delays && case.may_have_long_delay() {
            self.check_due(case, next, send)?;
        } else {
            let limit = self.age_limit(send.n, first_sent);
            let (least, most) = match case.spends {
                RetryBudget::Hold => self.hold_range(case, delay.into(), next, limit)?,
                _ => {
                    let left = limit.map(|limit| limit - send.at);
                    self.retry_delays(send.n, case.retry_key(), case.asked)
                        .delay_range(left, self.time_tolerance())
                }
            };
            if !(least..=most).contains(&u64::from(delay)) {
                return Err(lazy_violation(move || format!("the delay must be in {least}..={most}")));
            }
        }
        let due = send.at + TimeDelta::seconds(i64::from(delay));
        if (next - due).abs() > self.time_tolerance() {
            return Err(lazy_violation(move || format!("next_retry_time is {next}, but it is due at {due}")));
        }
        match self.age_limit(send.n, first_sent) {
            Some(limit) if next > limit => {
                Err(lazy_violation(move || format!("next_retry_time {next} is after {limit}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the shortest and the longest hold in seconds with this due time: at most half of the remaining time, and
    /// never beyond the hold limit.
    fn hold_range(
        &self,
        case: &RetryCase,
        delay: u64,
        due: DateTime<Utc>,
        limit: Option<DateTime<Utc>>,
    ) -> Result<(u64, u64), LazyViolation<'static>> {
        // The time of the decision, by the deciding process's clock.
        let decided_at = due.timestamp() - i64::try_from(delay).unwrap_or(0);
        // At the limit, only a `Retry-After` can hold the message.
        let until_called = match self.knobs.policy.hold_seconds_max().saturating_sub(case.before.held_seconds)
        {
            0 => u64::MAX,
            left => left,
        };
        let left = limit.map(|limit| (limit.timestamp() - decided_at).max(0).unsigned_abs() / 2);
        let cut = |more: u64| {
            let left = left.map_or(u64::MAX, |left| left.saturating_sub(1) + more);
            until_called.min(left).clamp(1, DELAY_SECONDS_MAX)
        };
        let grid = |seconds| extend_to_grid(seconds, decided_at.unsigned_abs());
        if (61..cut(0)).contains(&delay) && due.timestamp() % 10 != 0 {
            return Err(lazy_violation(move || format!("a hold above a minute is due at {due}")));
        }
        let (least, most) = case.hold;
        Ok((grid(least).min(cut(0)), grid(most).min(cut(2))))
    }

    /// Returns true if a message may not be held any longer. A message held without a call at its hold limit may still
    /// wait for the end of a `Retry-After`.
    fn has_reached_hold_limit(&self, before: &RetryMembers, error_type: &str) -> bool {
        let more = if NOT_CALLED.contains(&error_type) { DELAY_SECONDS_MAX } else { 0 };
        before.held_seconds >= self.knobs.policy.hold_seconds_max() + more
    }

    /// Returns the reason why a message that SQS moved is not re-sent again, if any.
    fn redrive_refusal(&self, before: &RetryMembers) -> Option<String> {
        let most = self.knobs.policy.redrives_max();
        let (in_all, unanswered) = (before.redrives, before.redrives_since_answer());
        let refusal = |times: u32, more: &str, limit: &str| {
            format!("SQS moved it {times} times{more} because no call was answered: {limit}")
        };
        if unanswered >= most {
            let since = if in_all > unanswered { " since its last answer" } else { "" };
            return Some(refusal(unanswered + 1, since, &format!("max_redrives is {most}")));
        }
        let most_in_all = (5 * most).min(1000);
        let limit = format!("with max_redrives {most} the limit in all is {most_in_all}");
        (in_all >= most_in_all).then(|| refusal(in_all + 1, " in all", &limit))
    }

    /// Checks that a held message carries the outage reported by its hand-off, and that any other re-send carries none.
    fn check_outage<'a>(
        &self,
        case: &'a RetryCase,
        body: &'a LedgerBody,
        send: Send<'_>,
    ) -> Result<(), LazyViolation<'a>> {
        let RetryMembers { held_since, outage_failures, .. } = body.retries;
        // A rate-limited target is not down.
        if case.spends != RetryBudget::Hold || case.error_type == "RateLimited" {
            let is_clear = held_since.is_none() && outage_failures == 0;
            let why = || lazy_violation(|| "it is not held for an outage".to_owned());
            return if is_clear { Ok(()) } else { Err(why()) };
        }
        let Some(held_since) = held_since else {
            return Err(lazy_violation(|| "it has no held_since".to_owned()));
        };
        // Without a hand-off, the outage is checked against the environment that holds the message.
        if !case.is_handed_off {
            return Ok(());
        }
        // The time is never later than the sending process's clock. Times are written with microsecond precision.
        let since = case.outage.map_or(case.failed_at.trunc_subsecs(6), |outage| outage.since);
        let is_then = held_since == since
            || (held_since < since && (held_since - send.at).abs() <= self.time_tolerance());
        let failures = case.outage.map_or(0, |outage| outage.first_failures);
        if is_then && outage_failures == failures {
            return Ok(());
        }
        Err(lazy_violation(move || format!("its outage began at {since}, with {failures} failures")))
    }

    /// Checks the history: at most five entries, of which the last is this failure. A message that was held without a
    /// call has not failed.
    fn check_history<'a>(
        &self,
        case: &'a RetryCase,
        body: &'a LedgerBody,
        n: usize,
    ) -> Result<(), LazyViolation<'a>> {
        let written = &body.retries.history;
        if written.len() > 5 || written.iter().any(|past| past.details_bytes > 256) {
            return Err(lazy_violation(|| "the history is too long".to_owned()));
        }
        if self.subjects[n].is_oversize() {
            return Ok(()); // omitted for lack of room
        }
        let newest = (u64::from(case.before.attempt), case.error_type.as_str());
        let was_called = !NOT_CALLED.contains(&case.error_type.as_str());
        let newest = Some(newest).filter(|_| case.spends != RetryBudget::Hold || was_called);
        let before = case.before.history.iter().map(|past| (past.attempt, past.error_type.as_str()));
        let too_many = (case.before.history.len() + usize::from(newest.is_some())).saturating_sub(5);
        let expected = before.chain(newest).skip(too_many);
        if written.iter().map(|past| (past.attempt, past.error_type.as_str())).eq(expected.clone()) {
            Ok(())
        } else {
            Err(lazy_violation(move || {
                format!("the history is not {:?}", expected.clone().collect::<Vec<_>>())
            }))
        }
    }

    pub(super) fn may_give_up(
        &self,
        case: &RetryCase,
        code: &str,
        failure: &StatedFailure,
        send: Send<'_>,
    ) -> bool {
        let (max_attempts, whose) = self.max_attempts(send.n);
        let redriven = case.error_type == "Redrive";
        let same_error = failure.text_member("type") == case.error_type
            && (redriven || failure.text_member("details") == case.details);
        if !same_error && !self.subjects[send.n].is_oversize() {
            return false;
        }
        let exhausted = case.spends_attempt() && case.before.attempt >= max_attempts;
        let redrives_over =
            self.redrive_refusal(&case.before).filter(|_| case.spends == RetryBudget::Redrive);
        match code {
            "NON_RETRYABLE_ERROR" => case.class == FailureClass::Permanent,
            _ if case.class == FailureClass::Permanent => false,
            "RETRY_ATTEMPT_EXCEEDED" => {
                let explanation = format!("Max retry attempts {max_attempts} exceeded{whose}");
                let written = failure.text_member("explanation");
                exhausted && (written == explanation || self.subjects[send.n].is_oversize())
            }
            "ORCHESTRATION_FAILED" => {
                let written = failure.text_member("explanation");
                redrives_over.is_some_and(|why| written == why || self.subjects[send.n].is_oversize())
            }
            _ if exhausted || redrives_over.is_some() => false,
            "HOLD_TIME_EXCEEDED"
                if case.spends == RetryBudget::Hold
                    && self.has_reached_hold_limit(&case.before, &case.error_type) =>
            {
                let (held, most) = (case.before.held_seconds, self.knobs.policy.hold_seconds_max());
                let explanation =
                    format!("Held for {held} s without a successful call (hold_seconds_max is {most})");
                failure.text_member("explanation") == explanation || self.subjects[send.n].is_oversize()
            }
            "MESSAGE_EXPIRED" => self
                .age_limit(send.n, case.before.first_sent(case.sent_at))
                .is_some_and(|limit| self.is_expired(case, limit, send)),
            "MESSAGE_TOO_LARGE" => self.subjects[send.n].is_oversize(),
            _ => false,
        }
    }

    /// Returns true if, with its actual delay in whole seconds, the retry of a message that is given up would have come
    /// after the limit. The decision precedes the verdict, but the deciding process's clock might be ahead.
    fn is_expired(&self, case: &RetryCase, limit: DateTime<Utc>, send: Send<'_>) -> bool {
        let decided = send.at + self.clock_skew();
        if let Some(due) = case.due {
            return due.max(decided) > limit;
        }
        if case.spends == RetryBudget::Hold {
            // The delay shrinks with the remaining time, down to one second.
            return decided + time_delta(1) > limit;
        }
        let is_long = self.knobs.policy.long_delays && case.may_have_long_delay();
        let from = if is_long { case.failed_at + self.clock_skew() } else { decided };
        let delays = self.retry_delays(send.n, case.retry_key(), case.asked);
        delays.may_give_up(|delay| (from + time_delta(delay)).max(decided), limit, decided)
    }

    /// Checks the due time of a long delay, which starts at the failure, or now if the process's clock is ahead. If the
    /// delay is already over, the retry is due now.
    fn check_due(
        &self,
        case: &RetryCase,
        due: DateTime<Utc>,
        send: Send<'_>,
    ) -> Result<(), LazyViolation<'static>> {
        let at = send.at;
        let tolerance = self.time_tolerance();
        let overdue = (due - at).abs() <= tolerance;
        if let Some(kept_due) = case.due {
            let kept = due == kept_due || (due >= kept_due && overdue);
            let why = move || format!("it is due at {due}, but was due at {kept_due}");
            return if kept { Ok(()) } else { Err(lazy_violation(why)) };
        }
        // Two processes have two clocks, and both can be wrong.
        let ahead = tolerance + TimeDelta::milliseconds(self.knobs.skew_ms);
        let ahead = if case.has_time { ahead } else { ahead + self.clock_skew() };
        let limit = self.age_limit(send.n, case.before.first_sent(case.sent_at));
        let (first, last) =
            self.retry_delays(send.n, case.retry_key(), case.asked).due_range(case.failed_at, ahead, limit);
        // A full message might have no room for the failure time. Its delay then starts on receipt, measured by another
        // clock.
        let last = if self.subjects[send.n].is_oversize() { last + ahead } else { last };
        if (first..=last).contains(&due) || (due >= first && overdue) {
            Ok(())
        } else {
            Err(lazy_violation(move || format!("it is due at {due}, but must be between {first} and {last}")))
        }
    }

    /// Returns the total delay of a retry if it can be determined exactly.
    pub(super) fn exact_wait(&self, case: &RetryCase, body: &LedgerBody, send: Send<'_>) -> Option<u64> {
        if self.knobs.policy.long_delays && !case.has_time {
            return None;
        }
        // Copies are held for different lengths of time.
        if case.spends == RetryBudget::Hold {
            return None;
        }
        if !self.knobs.policy.long_delays || !case.may_have_long_delay() {
            return Some(send.content.delay.get().into());
        }
        // A full message might have no room for the failure time.
        if self.knobs.skew_ms > 0 || self.subjects[send.n].is_oversize() {
            return None;
        }
        let due = body.retries.next_retry.filter(|due| *due > send.at)?;
        // SQS timestamps are whole milliseconds.
        u64::try_from(((due - case.failed_at).num_milliseconds() + 500) / 1000).ok()
    }

    /// Checks a hop, which sends the unchanged message with its due time.
    pub(super) fn check_hop(&self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        self.check_hop_from_cases(send, || self.cases_newest_first(send.n))
    }

    /// Checks that a hop follows from one of these cases.
    pub(super) fn check_hop_from_cases<'a, C: Iterator<Item = &'a RetryCase>>(
        &self,
        send: Send<'_>,
        cases: impl Fn() -> C,
    ) -> Result<(), BrokenInvariant> {
        if self.expected_outcome(send.n) != ExpectedOutcome::Handled || !self.knobs.policy.long_delays {
            return Err("it must not wait there".to_owned());
        }
        if send.content.delay.get() != 900 {
            return Err(format!("a hop takes 900 s, not {}", send.content.delay));
        }
        self.check_attributes_kept(send, "Failure")?;
        let copy = Copy::new(send.content, send.hash, send.body, send.at);
        let failure = copy.trusted_failure().ok_or("without its failure")?;
        failure.check_size(self.subjects[send.n].is_oversize())?;
        let due = failure.time_member("due_at").ok_or("without a due time")?;
        if due - send.at <= TimeDelta::seconds(900) - self.time_tolerance() {
            return Err(format!("it hops although it is due at {due}"));
        }
        let hopped = self.read_case(&copy).ok_or("its body cannot be read")?;
        let may_hop = |case: &RetryCase| self.check_hop_from_case(case, &hopped, due, send);
        if cases().any(|case| may_hop(case).is_ok()) {
            return Ok(());
        }
        let refusals: Vec<_> = cases().filter_map(|case| Some(may_hop(case).err()?())).collect();
        Err(format!("a hop that is due at {due} does not follow: {refusals:?}"))
    }

    fn check_hop_from_case(
        &self,
        case: &RetryCase,
        hopped: &RetryCase,
        due: DateTime<Utc>,
        send: Send<'_>,
    ) -> Result<(), LazyViolation<'static>> {
        if case.body_hash != hopped.body_hash {
            return Err(lazy_violation(String::new));
        }
        // Documents can be truncated if the message has SQS's maximum size.
        let details = if self.subjects[send.n].is_oversize() || case.error_type == "Redrive" {
            hopped.details.clone()
        } else {
            case.details.clone()
        };
        let is_oversize = self.subjects[send.n].is_oversize();
        let is_same_moment =
            case.due.is_none() && (case.failed_at - hopped.failed_at).abs() <= TimeDelta::milliseconds(1);
        let failed_at = if is_same_moment || is_oversize { hopped.failed_at } else { case.failed_at };
        let sent_at = if is_oversize { hopped.sent_at } else { case.sent_at };
        if (RetryCase { due: Some(due), details, failed_at, sent_at, ..case.clone() }) != *hopped {
            return Err(lazy_violation(String::new));
        }
        if case.class == FailureClass::Permanent {
            return Err(lazy_violation(|| "it failed permanently".to_owned()));
        }
        if !case.may_have_long_delay() {
            return Err(lazy_violation(|| "its delay is never long".to_owned()));
        }
        if case.spends_attempt() && case.before.attempt >= self.max_attempts(send.n).0 {
            return Err(lazy_violation(|| "it has no retries left".to_owned()));
        }
        self.check_due(case, due, send)?;
        match self.age_limit(send.n, case.before.first_sent(case.sent_at)) {
            Some(limit) if due > limit => {
                Err(lazy_violation(move || format!("it is due at {due}, after {limit}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn age_limit(&self, n: usize, first_sent: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let by_policy =
            self.knobs.policy.max_age_seconds.map(|age| first_sent + TimeDelta::seconds(age.into()));
        let expires = self.subjects[n].produced.expires_after_seconds;
        let by_producer = expires.map(|seconds| self.start + TimeDelta::seconds(seconds));
        by_policy.into_iter().chain(by_producer).min()
    }
}
