//! The judge: checks every queue change, call and scheduled retry, without access to the function's state.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash as _, Hasher as _};
use std::ops::AddAssign;

use redeliver_core::events::Event;
use redeliver_core::message::Timestamp;
use redeliver_core::strategy::Role;
use redeliver_embedded::{ChangeKind, MessageChange};
use serde_json::Value;

use super::knobs::{Fate, OrderedKnobs};

/// The time that the last call needs, in seconds. A message may be given up this long before its age limit, even if its
/// delay is shorter.
const LAST_CALL_SECONDS: u64 = 5;

/// Number of lines kept for the failure report.
const TRACE: usize = 80;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallResult {
    Success,
    Failure,
    /// The caller stopped waiting, or died.
    CutOff,
}

/// The history of a run, with the first broken rule.
pub(super) struct Judge {
    knobs: OrderedKnobs,
    start: Timestamp,
    roles: BTreeMap<String, Role>,
    messages: Vec<JudgedMessage>,
    /// Message numbers by SQS message id.
    numbers: HashMap<String, usize>,
    groups: Vec<JudgedGroup>,
    violation: Option<String>,
    trace: VecDeque<String>,
    digest: DefaultHasher,
    pub(super) counts: OrderedCounts,
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderedCounts {
    pub messages: u64,
    pub calls: u64,
    pub crashes: u64,
    pub unreadable: u64,
    /// Messages that blocked their group until a person took them out.
    pub taken_out: u64,
    pub changes: u64,
}

impl AddAssign for OrderedCounts {
    fn add_assign(&mut self, other: Self) {
        let Self { messages, calls, crashes, unreadable, taken_out, changes } = other;
        self.messages += messages;
        self.calls += calls;
        self.crashes += crashes;
        self.unreadable += unreadable;
        self.taken_out += taken_out;
        self.changes += changes;
    }
}

#[derive(Clone, Default)]
struct JudgedMessage {
    /// Position in the group; `None` if SQS has not received the message yet.
    place: Option<usize>,
    sent_at: Option<Timestamp>,
    first_received_at: Option<Timestamp>,
    first_failed_at: Option<Timestamp>,
    receive_count: u32,
    is_processed: bool,
    /// True if the annotation queue has received a verdict on the message, or SQS has moved it.
    is_given_up: bool,
    has_final_record: bool,
    /// True if a person has backed up the message.
    is_kept: bool,
    /// True if the message was backed up and then deleted.
    is_taken_out: bool,
    calls: u32,
    /// Number of calls that do not count against the policy: their result was not confirmed, or the message was held.
    excused: u32,
    calls_of: BTreeMap<u64, u32>,
    retries_of: BTreeMap<u64, u32>,
    receive: ReceiveState,
}

/// The events since the last receive of a message.
#[derive(Clone, Default)]
struct ReceiveState {
    environment: Option<u64>,
    answer: Option<CallResult>,
    hidden_seconds: Option<u16>,
    spent_attempt: bool,
    /// True if the queue for blocked groups contains the message's notice.
    has_notice: bool,
}

#[derive(Clone, Default)]
struct JudgedGroup {
    /// The messages in the order in which SQS accepted them.
    messages: Vec<usize>,
    /// All messages before this position are done.
    open_from: usize,
    running: Option<usize>,
}

impl JudgedMessage {
    fn is_safe(&self) -> bool {
        self.is_processed || self.has_final_record || self.is_taken_out
    }
}

impl Judge {
    pub(super) fn new(knobs: &OrderedKnobs, roles: BTreeMap<String, Role>, start: Timestamp) -> Self {
        Self {
            messages: vec![JudgedMessage::default(); knobs.messages.len()],
            groups: vec![JudgedGroup::default(); knobs.groups],
            knobs: knobs.clone(),
            start,
            roles,
            numbers: HashMap::new(),
            violation: None,
            trace: VecDeque::new(),
            digest: DefaultHasher::new(),
            counts: OrderedCounts::default(),
        }
    }

    pub(super) fn violation(&self) -> Option<&String> {
        self.violation.as_ref()
    }

    pub(super) fn recent_events(&self) -> Vec<String> {
        self.trace.iter().cloned().collect()
    }

    /// Returns a hash that is equal for equal histories.
    pub(super) fn history_digest(&self) -> u64 {
        self.digest.finish()
    }

    pub(super) fn are_all_done(&self) -> bool {
        self.messages.iter().all(JudgedMessage::is_safe)
    }

    /// Checks at the end of a run that no message is lost and none is left in the queues.
    pub(super) fn check_end(&mut self, now: Timestamp, left: u64) {
        let lost = self.messages.iter().position(|one| !one.is_safe());
        if let Some(n) = lost {
            self.report_violation(
                now,
                &format!("message {n} was not processed and is neither in the final DLQ nor in a backup"),
            );
        } else if left > 0 {
            self.report_violation(now, &format!("{left} messages are left in the queues"));
        }
    }

    /// Records and checks the start of a call.
    pub(super) fn begin_call(&mut self, n: usize, environment: u64, now: Timestamp) {
        self.counts.calls += 1;
        self.add_trace_line(now, &format!("environment {environment} calls message {n}"));
        self.check_order(n, now);
        self.check_group_is_idle(n, now);
        self.check_calls(n, now);
        self.check_promptness(n, now);
        let group = self.knobs.messages[n].group;
        self.groups[group].running = Some(n);
        let message = &mut self.messages[n];
        message.calls += 1;
        *message.calls_of.entry(environment).or_default() += 1;
        message.receive.environment = Some(environment);
        message.receive.answer = None;
    }

    /// Records that the target has processed the message. Its response is in transit.
    pub(super) fn record_processed(&mut self, n: usize) {
        self.messages[n].is_processed = true;
    }

    /// Records that a person has backed up the message before deleting it.
    pub(super) fn record_backup(&mut self, n: usize) {
        self.messages[n].is_kept = true;
    }

    /// Records the end of a call.
    pub(super) fn end_call(&mut self, n: usize, answer: CallResult, now: Timestamp) {
        self.add_trace_line(now, &format!("message {n}: {answer:?}"));
        let group = self.knobs.messages[n].group;
        self.groups[group].running = None;
        let message = &mut self.messages[n];
        message.receive.answer = Some(answer);
        if answer != CallResult::Success {
            message.first_failed_at.get_or_insert(now);
        }
    }

    /// Checks an event that the function reports.
    pub(super) fn check_event(&mut self, environment: u64, event: &Event, now: Timestamp) {
        let Event::RetryScheduled { message_id, spends_attempt, delay_seconds, .. } = event else { return };
        let Some(n) = number_in_id(message_id) else { return };
        let delay = u64::from(delay_seconds.get());
        self.add_trace_line(
            now,
            &format!("message {n}: retry in {delay} s, spends an attempt: {spends_attempt}"),
        );
        if self.messages[n].receive.environment != Some(environment) {
            // After a short delay, another environment already has the message.
            return;
        }
        let hidden = self.messages[n].receive.hidden_seconds.map(u64::from);
        if hidden != Some(delay) {
            let rule =
                format!("message {n} was reported as hidden for {delay} s, but was hidden for {hidden:?} s");
            return self.report_violation(now, &rule);
        }
        if !spends_attempt {
            return;
        }
        let message = &mut self.messages[n];
        message.receive.spent_attempt = true;
        let retries = message.retries_of.entry(environment).or_default();
        *retries += 1;
        // With batches of ten, a message's count restarts at zero if the deletion after a success or a verdict is lost.
        let (retries, begins_anew) = match self.knobs.batch_size {
            1 => (message.receive_count, false),
            _ => (*retries, message.is_processed || message.is_given_up),
        };
        if retries > self.knobs.rules.max_attempts && !begins_anew {
            self.report_violation(now, &format!("retry {retries} of message {n} exceeds the policy"));
        }
    }

    /// Records that a received record was unreadable.
    pub(super) fn record_unreadable(&mut self, sqs_message_id: &str, now: Timestamp) {
        self.counts.unreadable += 1;
        if let Some(n) = self.numbers.get(sqs_message_id) {
            self.add_trace_line(now, &format!("message {n} cannot be read"));
        }
    }

    /// Records and checks a queue change.
    pub(super) fn apply_change(&mut self, change: &MessageChange) {
        self.counts.changes += 1;
        let MessageChange { at, queue_arn, sqs_message_id, what } = change;
        let (at, role) = (*at, self.roles[queue_arn]);
        if let ChangeKind::Sent(content) = what
            && let Some(n) = message_number_in_body(&content.body)
        {
            self.add_trace_line(at, &format!("{}: message {n} sent", role.display_name()));
            match role {
                Role::Source => self.record_send(n, sqs_message_id, at),
                Role::FinalDlq => self.messages[n].has_final_record = true,
                _ => {
                    let text = content.attributes.get("Failure").and_then(|attribute| attribute.text());
                    let failure: Value =
                        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
                    let verdict = failure["verdict"].as_str().unwrap_or_default().to_owned();
                    self.check_verdict(n, &verdict, at);
                    if role == Role::Blocked {
                        self.messages[n].receive.has_notice = true;
                        return;
                    }
                    if self.knobs.rules.blocks {
                        self.report_violation(
                            at,
                            &format!("message {n} was given up, but its group continues"),
                        );
                    }
                    self.messages[n].is_given_up = true;
                    self.numbers.insert(sqs_message_id.clone(), n);
                }
            }
            return;
        }
        let Some(&n) = self.numbers.get(sqs_message_id) else { return };
        self.add_trace_line(at, &format!("{}: message {n} {}", role.display_name(), describe_change(what)));
        let message = &mut self.messages[n];
        match what {
            ChangeKind::Received { receive_count } if role == Role::Source => {
                let ReceiveState { answer, spent_attempt, .. } = std::mem::take(&mut message.receive);
                // The last call did not settle the message, and no retry was confirmed.
                message.excused += u32::from(answer.is_some() && !spent_attempt);
                message.receive_count = *receive_count;
                message.first_received_at.get_or_insert(at);
            }
            ChangeKind::Hidden { seconds } => {
                message.receive.hidden_seconds = Some(*seconds);
                // No delay and no hold is this long.
                if *seconds > 3600 && !message.receive.has_notice {
                    self.report_violation(
                        at,
                        &format!("message {n} is hidden for {seconds} s, without a notice"),
                    );
                }
            }
            ChangeKind::Moved(_) if role == Role::Source => message.is_given_up = true,
            ChangeKind::Moved(_) => message.has_final_record = true,
            ChangeKind::Deleted if role == Role::Source && message.is_kept => {
                message.is_taken_out = true;
                self.counts.taken_out += 1;
            }
            ChangeKind::Deleted if role == Role::Source && !message.is_processed && !message.is_given_up => {
                self.report_violation(
                    at,
                    &format!("message {n} was deleted, but neither processed nor given up"),
                );
            }
            ChangeKind::Deleted if role != Role::Source && !message.has_final_record => {
                self.report_violation(
                    at,
                    &format!("the verdict on message {n} was deleted without a final record"),
                );
            }
            ChangeKind::Expired => self.report_violation(at, &format!("message {n} expired")),
            _ => {}
        }
    }

    /// Adds a line to the failure report.
    pub(super) fn add_trace_line(&mut self, now: Timestamp, line: &str) {
        let line = format!("{:>12.3} {line}", (now - self.start).as_seconds_f64());
        line.hash(&mut self.digest);
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back(line);
    }

    pub(super) fn report_violation(&mut self, now: Timestamp, rule: &str) {
        self.add_trace_line(now, rule);
        self.violation.get_or_insert_with(|| rule.to_owned());
    }

    fn record_send(&mut self, n: usize, sqs_message_id: &str, at: Timestamp) {
        self.counts.messages += 1;
        self.numbers.insert(sqs_message_id.to_owned(), n);
        let group = &mut self.groups[self.knobs.messages[n].group];
        let message = &mut self.messages[n];
        if message.place.is_none() {
            message.place = Some(group.messages.len());
            message.sent_at = Some(at);
            group.messages.push(n);
        }
    }

    /// Checks that every earlier message of the group is done.
    fn check_order(&mut self, n: usize, now: Timestamp) {
        let group = &mut self.groups[self.knobs.messages[n].group];
        let is_done = |n: usize| {
            let JudgedMessage { is_processed, is_given_up, is_taken_out, .. } = self.messages[n];
            let is_skipped = self.knobs.messages[n].fate == Fate::Invalid && !self.knobs.rules.blocks;
            is_processed || is_given_up || is_taken_out || is_skipped
        };
        while group.messages.get(group.open_from).is_some_and(|n| is_done(*n)) {
            group.open_from += 1;
        }
        if self.messages[n].place.is_none_or(|place| place > group.open_from) {
            let before = group.messages[group.open_from];
            self.report_violation(now, &format!("message {n} overtakes message {before} of its group"));
        }
    }

    fn check_group_is_idle(&mut self, n: usize, now: Timestamp) {
        if let Some(other) = self.groups[self.knobs.messages[n].group].running {
            self.report_violation(
                now,
                &format!("message {n} is called during the call of message {other} of its group"),
            );
        }
    }

    /// Checks the number of calls, but only with batches of one, for which SQS counts exactly. Calls beyond the policy
    /// are allowed only for held messages, and after calls for which SQS confirmed neither the deletion nor a longer
    /// visibility timeout.
    fn check_calls(&mut self, n: usize, now: Timestamp) {
        let JudgedMessage { calls, excused, .. } = self.messages[n];
        let most = self.knobs.rules.max_attempts + 1 + excused;
        if self.knobs.batch_size == 1 && calls >= most {
            self.report_violation(now, &format!("message {n} has more than {most} calls"));
        }
    }

    /// Checks that after the faults, a group without failures does not wait for other groups.
    fn check_promptness(&mut self, n: usize, now: Timestamp) {
        let planned = &self.knobs.messages;
        let is_healthy = |group| planned.iter().all(|one| one.group != group || one.fate == Fate::Succeeds);
        if !planned[n].is_late || !is_healthy(planned[n].group) {
            return;
        }
        let waited = self.messages[n].sent_at.map_or(0, |sent_at| (now - sent_at).num_seconds());
        // With a breaker, an environment might first have to detect the target's recovery.
        let most = if self.knobs.rules.has_breaker { 2400 } else { 600 };
        if waited > most {
            self.report_violation(now, &format!("message {n} of a healthy group waited for {waited} s"));
        }
    }

    /// Checks that a message is given up only after a failed call, and not before the policy allows it.
    fn check_verdict(&mut self, n: usize, verdict: &str, now: Timestamp) {
        self.add_trace_line(now, &format!("message {n}: {verdict}"));
        let OrderedKnobs { rules, batch_size, messages, .. } = &self.knobs;
        let (rules, is_counted_by_sqs, fate) = (*rules, *batch_size == 1, messages[n].fate);
        let JudgedMessage { receive_count, first_received_at, first_failed_at, calls_of, receive, .. } =
            &self.messages[n];
        if fate == Fate::Invalid {
            return;
        }
        let calls =
            receive.environment.and_then(|environment| calls_of.get(&environment)).copied().unwrap_or(0);
        let attempts = if is_counted_by_sqs { *receive_count } else { calls };
        let since = if is_counted_by_sqs { first_received_at } else { first_failed_at };
        let age = since.map_or(0, |since| (now - since).num_seconds().unsigned_abs());
        let has_failed = matches!(receive.answer, Some(CallResult::Failure | CallResult::CutOff));
        let rule = match verdict {
            _ if !has_failed => format!("message {n} was given up ({verdict}) without a failed call"),
            "RETRY_ATTEMPT_EXCEEDED" if attempts <= rules.max_attempts => {
                format!("message {n} was given up after {attempts} attempts")
            }
            "MESSAGE_EXPIRED"
                if age + rules.delay_seconds_max().max(LAST_CALL_SECONDS) < rules.max_age_seconds =>
            {
                format!("message {n} was given up after {age} s")
            }
            "NON_RETRYABLE_ERROR" if fate != Fate::Permanent => format!("message {n} has no permanent error"),
            "RETRY_ATTEMPT_EXCEEDED" | "MESSAGE_EXPIRED" | "HOLD_TIME_EXCEEDED" | "NON_RETRYABLE_ERROR" => {
                return;
            }
            _ => format!("message {n} was given up, with the verdict {verdict:?}"),
        };
        self.report_violation(now, &rule);
    }
}

fn describe_change(what: &ChangeKind) -> String {
    match what {
        ChangeKind::Received { receive_count } => format!("received, {receive_count}"),
        ChangeKind::Hidden { seconds } => format!("hidden for {seconds} s"),
        ChangeKind::Moved(to) => format!("moved to {to}"),
        ChangeKind::Sent(_) => "sent".to_owned(),
        ChangeKind::Deleted => "deleted".to_owned(),
        ChangeKind::Expired => "expired".to_owned(),
    }
}

/// Returns the `metadata.message_id` of message `n`.
pub(super) fn message_id(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012x}")
}

fn number_in_id(id: &str) -> Option<usize> {
    usize::from_str_radix(id.rsplit('-').next()?, 16).ok()
}

/// Returns the number that the producer wrote into a body.
pub(super) fn message_number_in_body(body: &str) -> Option<usize> {
    let (_, rest) = body.split_once(r#""n":"#)?;
    rest.split('}').next()?.parse().ok()
}
