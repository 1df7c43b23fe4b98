//! The independent ledger. It records the sent messages, checks every queue change and every call to the target, and
//! reports a broken rule immediately. It shares only the types and sizes of messages with the code that it audits. The
//! tracker of `redeliver local` runs alongside it for comparison.

mod archive;
pub(crate) mod arrivals;
mod asynchronous;
mod balance;
mod body;
mod breaker;
mod calls;
mod copies;
mod direct;
mod invocations;
mod last_call;
mod oracle;
mod plain;
mod removals;
mod sends;
mod spans;
mod trace;
mod trace_header;
mod visibility;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::{Attributes, Content, attributes_size};
use redeliver_embedded::{ChangeKind, MessageChange};
use redeliver_sim::Tracker;

use crate::knobs::{Operator, SimulationKnobs};
use crate::messages::{ExpectedOutcome, ProducedMessage, message_number};
use crate::policy::{DelayKey, TargetDelay};
use archive::ArchiveLedger;
pub use balance::Balance;
use body::{LedgerBody, RetryMembers};
pub use breaker::CallId;
use breaker::LedgerEnvironment;
use calls::CallResponse;
use copies::Copy;
use invocations::LedgerInvocation;
use oracle::{FreeResend, RetryCase, RetryKey};
pub use spans::SpanCounts;
use spans::SpanLedger;

/// The four queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueuePlace {
    /// Receives the producers' messages.
    Source,
    /// Holds failed messages.
    Intermediate,
    /// Holds verdicts.
    Annotation,
    /// Holds final records.
    Final,
}

/// The sender or deleter of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    Producer,
    /// The message-processor and its event source mapping.
    MessageProcessor,
    /// The failed-message-processor and its event source mapping.
    FailedMessageProcessor,
    /// The annotator and its event source mapping.
    Annotator,
    /// An operator who moves final records back unchanged.
    Console,
    /// `redeliver redrive`.
    Redrive,
    /// Lambda, which reports failed asynchronous invocations.
    Lambda,
    /// The async-retry-handler and its event source mapping.
    AsyncRetryHandler,
}

impl Actor {
    /// Returns true if the actor waits for responses only until a deadline. The other actors wait forever.
    #[must_use]
    pub fn has_deadlines(self) -> bool {
        !matches!(self, Self::Producer | Self::Console | Self::Lambda)
    }
}

/// A broken rule.
pub type BrokenInvariant = String;

/// The ledger of one run.
pub struct Ledger {
    knobs: SimulationKnobs,
    queues: HashMap<String, QueuePlace>,
    subjects: Vec<LedgerMessage>,
    by_message_id: HashMap<String, usize>,
    /// Every copy in a queue, by SQS message id: the message number, the queue, and the copy's index among the
    /// message's copies in that queue.
    copies: HashMap<String, (usize, QueuePlace, usize)>,
    invocations: HashMap<u64, LedgerInvocation>,
    /// The processes that call the target, if they have a breaker.
    environments: HashMap<u64, LedgerEnvironment>,
    /// The invocation that is currently running.
    current_invocation: Option<u64>,
    /// Every delivery that was ever in the source queue, by SQS message id.
    origins: HashMap<String, CopyOrigin>,
    start: DateTime<Utc>,
    healed_at: Option<DateTime<Utc>>,
    violation: Option<BrokenInvariant>,
    trace: VecDeque<String>,
    digest: DefaultHasher,
    changes: u64,
    /// The tracker of `redeliver local`, which must compute the same totals.
    tracker: Tracker,
    by_error_type: BTreeMap<String, u64>,
    /// The state of the archive and the notices.
    archive_ledger: ArchiveLedger,
    /// The last computed delay and its key, kept because a re-send is compared with many cases of the same retry.
    last_delay: Cell<Option<(CachedDelayKey, u64)>>,
    spans: SpanLedger,
}

/// A message number, the retry, and the delay that the target requested.
type CachedDelayKey = (usize, RetryKey, Option<TargetDelay>);

/// A message with all its copies.
struct LedgerMessage {
    produced: ProducedMessage,
    body: Option<LedgerBody>,
    /// The attributes as they must arrive: without the reserved name, and with the folded attributes of a valid
    /// document restored.
    attributes: Attributes,
    sends: u32,
    /// Present and past copies, by place.
    copies: [Vec<Copy>; 4],
    /// Indexes of the copies in the source queue, by the hash of their body.
    copies_by_body: HashMap<u64, Vec<usize>>,
    /// Number of present copies, by place.
    live: [u32; 4],
    /// Unused credits from final records that an operator sent back: each permits the deletion of one copy from the
    /// final DLQ.
    credit: u32,
    /// The distinct cases of the copies received from the intermediate DLQ.
    cases: Vec<RetryCase>,
    processed: u32,
    final_records: u32,
    /// The number of final records that SQS moved, and that therefore have no annotation.
    moved_unannotated: u32,
    /// Events that Lambda has accepted but not yet executed.
    in_lambda: u32,
    /// Lambda's records of failed invocations.
    records: Vec<asynchronous::AsyncRecord>,
    answers: Vec<CallResponse>,
    /// True once the target has requested a delay.
    has_requested_delay: bool,
    delays: BTreeMap<RetryKey, u64>,
    /// Attempt numbers of the re-sends (or visibility changes) that SQS accepted.
    resent: BTreeSet<u32>,
}

/// A delivery in the source queue.
struct CopyOrigin {
    subject: usize,
    /// The copy's index among the message's copies in the source queue.
    copy: usize,
    body_hash: u64,
    sent_at: DateTime<Utc>,
    came_back: bool,
    recorded_generation: Option<u32>,
    receives: u32,
    sender: DeliverySender,
}

/// The sender of a delivery, as far as the functions can determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliverySender {
    Functions,
    Producer,
    Unknown,
}

impl LedgerMessage {
    fn as_envelope<'a>(&self, content: &'a Content) -> Cow<'a, Content> {
        plain::as_envelope(&self.produced, content)
    }

    fn outcome_count(&self) -> u32 {
        self.processed + self.final_records
    }

    /// Returns true if the message might leave no room for annotations.
    fn is_oversize(&self) -> bool {
        let content = &self.produced.content;
        content.body.len() + attributes_size(&content.attributes) + 8192 > MESSAGE_BYTES_MAX
    }

    fn trace_header(&self) -> Option<String> {
        trace_header::attach_failure(&self.produced.content).into_owned().trace_header
    }
}

impl Ledger {
    /// Creates an empty ledger for these messages. `queues` contains the ARNs in the order of [`QueuePlace`].
    #[must_use]
    pub fn new(
        knobs: &SimulationKnobs,
        messages: &[ProducedMessage],
        queues: [&str; 4],
        start: DateTime<Utc>,
    ) -> Self {
        let places =
            [QueuePlace::Source, QueuePlace::Intermediate, QueuePlace::Annotation, QueuePlace::Final];
        let subject = |produced: &ProducedMessage| LedgerMessage {
            produced: produced.clone(),
            body: LedgerBody::parse(&plain::as_envelope(produced, &produced.content).body),
            attributes: arrivals::read_arrival(&plain::as_envelope(produced, &produced.content).attributes)
                .producer,
            sends: 0,
            copies: Default::default(),
            copies_by_body: HashMap::new(),
            live: [0; 4],
            credit: 0,
            cases: Vec::new(),
            processed: 0,
            final_records: 0,
            moved_unannotated: 0,
            in_lambda: 0,
            records: Vec::new(),
            answers: Vec::new(),
            has_requested_delay: false,
            delays: BTreeMap::new(),
            resent: BTreeSet::new(),
        };
        let ids =
            messages.iter().enumerate().filter_map(|(n, message)| Some((message.message_id.clone()?, n)));
        Self {
            knobs: knobs.clone(),
            queues: queues.map(str::to_owned).into_iter().zip(places).collect(),
            subjects: messages.iter().map(subject).collect(),
            by_message_id: ids.collect(),
            copies: HashMap::new(),
            invocations: HashMap::new(),
            environments: HashMap::new(),
            current_invocation: None,
            origins: HashMap::new(),
            start,
            healed_at: None,
            violation: None,
            trace: VecDeque::new(),
            digest: DefaultHasher::new(),
            changes: 0,
            tracker: Tracker::default(),
            by_error_type: BTreeMap::new(),
            archive_ledger: ArchiveLedger::default(),
            last_delay: Cell::new(None),
            spans: SpanLedger::default(),
        }
    }

    /// Records that the producer is about to send this message.
    pub fn record_upcoming_send(&mut self, content: &Content) {
        self.tracker.record_sent(&content.body);
        if let Some(subject) = message_number(&content.body).and_then(|n| self.subjects.get_mut(n)) {
            subject.sends += 1;
        }
    }

    /// Records the end of all faults. From now on, only expected failures are allowed.
    pub fn end_faults(&mut self, now: DateTime<Utc>) {
        self.healed_at = Some(now);
        for copy in self.subjects.iter_mut().flat_map(|subject| subject.copies.iter_mut().flatten()) {
            copy.receives_in_faults = copy.receives;
        }
    }

    /// Records and checks the queue changes that `actor` requested.
    pub fn apply_changes(&mut self, actor: Actor, changes: Vec<MessageChange>) {
        for change in changes {
            self.changes += 1;
            self.record_change(actor, &change);
            if let Err(violation) = self.check_change(actor, change) {
                self.report_violation(violation);
            }
        }
    }

    /// Returns true if the producer has sent everything.
    #[must_use]
    pub fn is_everything_sent(&self) -> bool {
        self.subjects.iter().all(|subject| subject.sends == if subject.produced.twice { 2 } else { 1 })
    }

    /// Returns the first broken rule.
    #[must_use]
    pub fn violation(&self) -> Option<&BrokenInvariant> {
        self.violation.as_ref()
    }

    /// Reports a broken rule. Only the first one is kept.
    pub fn report_violation(&mut self, violation: BrokenInvariant) {
        self.violation.get_or_insert(violation);
    }

    fn check_change(
        &mut self,
        actor: Actor,
        MessageChange { at, queue_arn, sqs_message_id: id, what }: MessageChange,
    ) -> Result<(), BrokenInvariant> {
        let place = *self.queues.get(&queue_arn).ok_or_else(|| format!("an unknown queue: {queue_arn}"))?;
        match what {
            ChangeKind::Sent(content) => self.check_sent_message(actor, place, id, &content, at),
            ChangeKind::Received { receive_count } => {
                if let Some(origin) = self.origins.get_mut(&id) {
                    origin.receives = receive_count;
                }
                let copy = self.find_copy(&id)?;
                copy.receives = receive_count;
                // SQS timestamps are whole milliseconds.
                copy.first_received.get_or_insert(at.trunc_subsecs(3));
                if place == QueuePlace::Intermediate && !std::mem::replace(&mut copy.is_case, true) {
                    let copy = copy.clone();
                    let (n, ..) = self.copies[&id];
                    let case = self.read_case(&copy);
                    let cases = &mut self.subjects[n].cases;
                    // A hopping message is the same case on every hop.
                    cases.extend(case.filter(|case| !cases.contains(case)));
                }
                Ok(())
            }
            ChangeKind::Hidden { seconds } => self.check_visibility_change(actor, &id, place, seconds, at),
            ChangeKind::Moved(to_arn) => {
                let to = *self
                    .queues
                    .get(&to_arn)
                    .ok_or_else(|| format!("moved to an unknown queue: {to_arn}"))?;
                self.check_move(&id, place, to)
            }
            ChangeKind::Deleted => self.check_deletion(&id, place),
            ChangeKind::Expired => Err(format!("{id} expired in {place:?}: it is lost")),
        }
    }

    fn find_copy(&mut self, id: &str) -> Result<&mut Copy, BrokenInvariant> {
        let (n, place, index) = *self.copies.get(id).ok_or_else(|| format!("an unknown message: {id}"))?;
        Ok(&mut self.subjects[n].copies[place as usize][index])
    }

    fn check_sent_message(
        &mut self,
        actor: Actor,
        place: QueuePlace,
        id: String,
        content: &Content,
        at: DateTime<Utc>,
    ) -> Result<(), BrokenInvariant> {
        let n = message_number(&content.body).filter(|n| *n < self.subjects.len());
        let n = n.ok_or_else(|| format!("{actor:?} sent a body that no producer sent to {place:?}"))?;
        let produced = &self.subjects[n].produced;
        if produced.plain && produced.content.body != content.body {
            return Err(format!("{actor:?} sent message {n} to {place:?}: its plain body was changed"));
        }
        let attached = trace_header::attach_failure(content);
        let has_our_field = attached.trace_header != content.trace_header;
        let sent = &*attached;
        let content = &*self.subjects[n].as_envelope(sent);
        let body = LedgerBody::parse(&content.body);
        let hash = hash_body(&content.body);
        let checked = self.check_send(actor, place, n, content, body.as_ref(), hash, at);
        let is_sent_back = place == QueuePlace::Source && !matches!(actor, Actor::Producer | Actor::Console);
        let checked = match checked {
            Ok(()) if is_sent_back && has_our_field => {
                Err("redeliver's field is still in its trace header".to_owned())
            }
            checked => checked,
        };
        let mut copy = Copy::new(content, hash, body.as_ref(), at);
        let checked = checked.and_then(|()| self.check_last_attempt(actor, place, n, &copy));
        let sender = self.assumed_sender(actor);
        // A producer's claims about holds are not trusted.
        if place == QueuePlace::Source && sender == DeliverySender::Producer {
            copy.retries = copy.retries.map(RetryMembers::for_producer);
        }
        let subject = &mut self.subjects[n];
        if place == QueuePlace::Source {
            let Copy { sent_at, came_back, recorded_generation, .. } = copy;
            let number = subject.copies[place as usize].len();
            subject.copies_by_body.entry(hash).or_default().push(number);
            let origin = CopyOrigin {
                subject: n,
                copy: number,
                body_hash: hash,
                sent_at,
                came_back,
                recorded_generation,
                receives: 0,
                sender,
            };
            self.origins.insert(id.clone(), origin);
        }
        if place == QueuePlace::Final {
            let produced =
                self.knobs.uses_async_retry().then(|| self.subjects[n].produced.content.body.clone());
            self.record_final_record(n, &copy, produced.as_deref().unwrap_or(&sent.body));
        }
        self.put_copy(n, place, id, copy);
        checked.map_err(|violation| format!("{actor:?} sent message {n} to {place:?}: {violation}"))
    }

    /// Returns the sender that the functions must assume for a delivery. With `visibility`, messages are never re-sent,
    /// so the sender is always the producer.
    fn assumed_sender(&self, actor: Actor) -> DeliverySender {
        match actor {
            _ if self.knobs.uses_visibility() => DeliverySender::Producer,
            _ if !self.knobs.senders_known => DeliverySender::Unknown,
            Actor::MessageProcessor | Actor::FailedMessageProcessor => DeliverySender::Functions,
            _ => DeliverySender::Producer,
        }
    }

    fn put_copy(&mut self, n: usize, place: QueuePlace, id: String, mut copy: Copy) {
        copy.id.clone_from(&id);
        let subject = &mut self.subjects[n];
        subject.live[place as usize] += 1;
        subject.copies[place as usize].push(copy);
        self.copies.insert(id, (n, place, subject.copies[place as usize].len() - 1));
    }

    fn take_copy(&mut self, id: &str) -> Result<usize, BrokenInvariant> {
        let (n, place, _) = self.copies.remove(id).ok_or_else(|| format!("an unknown message: {id}"))?;
        self.subjects[n].live[place as usize] -= 1;
        Ok(n)
    }

    fn record_final_record(&mut self, n: usize, copy: &Copy, body: &str) {
        let code = copy.trusted_failure().map(|failure| failure.text_member("verdict"));
        let error_type = match arrivals::dead_letter(&copy.attributes) {
            Some(_) => copy.attributes.get("ErrorType").and_then(|attribute| attribute.text()).unwrap_or(""),
            None => code.unwrap_or("UNANNOTATED"),
        };
        self.subjects[n].final_records += 1;
        *self.by_error_type.entry(error_type.to_owned()).or_default() += 1;
        self.tracker.record_dead_letter(body, error_type, self.start);
    }

    /// Returns the largest error of a process's clock, plus SQS's rounding to whole milliseconds.
    fn clock_skew(&self) -> TimeDelta {
        TimeDelta::milliseconds(self.knobs.skew_ms + 1)
    }

    /// Returns the exact delay in seconds before a retry of message `n`: the policy's delay, the delay requested by the
    /// target, or the delay of a re-send that spends no attempt.
    fn exact_delay(&self, n: usize, retry: RetryKey, asked: Option<TargetDelay>) -> u64 {
        let message_id = self.subjects[n].produced.message_id.as_deref().unwrap_or_default();
        let RetryKey { generation, attempt, unspent } = retry;
        if let Some((_, delay)) = self.last_delay.get().filter(|(of, _)| *of == (n, retry, asked)) {
            return delay;
        }
        let key = DelayKey { message_id, generation, attempt };
        let delay = match unspent {
            None => self.knobs.policy.exact_delay(key, asked),
            Some(FreeResend::Redrive { count }) => self.knobs.policy.redrive_delay(key, count),
            // Not drawn from a generator: the hand-off states the delay.
            Some(FreeResend::Hold) => 0,
        };
        self.last_delay.set(Some(((n, retry, asked), delay)));
        delay
    }

    /// Returns the largest error of a process's clock, plus the longest time that a process can hold a message.
    fn time_tolerance(&self) -> TimeDelta {
        self.clock_skew() + time_delta(2 * self.knobs.invocation_seconds)
    }

    /// Returns true if these are exactly the attributes of message `n`'s producer.
    fn has_producer_attributes(&self, n: usize, attributes: &Attributes) -> bool {
        let subject = &self.subjects[n];
        if *attributes == subject.attributes {
            return true;
        }
        // A known limitation: if a record has no room for `DeadLetter` and the console moves it back, it keeps
        // `ErrorType` and `ErrorDetails`.
        let by_console = self.knobs.operator == Operator::Console && subject.is_oversize();
        let mut without = attributes.clone();
        without.retain(|name, _| subject.attributes.contains_key(name) || !name.starts_with("Error"));
        by_console && without == subject.attributes
    }

    /// Returns the maximum number of retries, and the source of this limit as the explanation names it.
    fn max_attempts(&self, n: usize) -> (u32, &'static str) {
        let by_policy = self.knobs.policy.max_attempts;
        match self.subjects[n].produced.max_attempts {
            Some(fewer) if fewer < by_policy => (fewer, " (metadata.max_attempts)"),
            _ => (by_policy, ""),
        }
    }

    fn expected_outcome(&self, n: usize) -> ExpectedOutcome {
        self.subjects[n].produced.expected
    }
}

fn time_delta(seconds: u64) -> TimeDelta {
    TimeDelta::seconds(i64::try_from(seconds).unwrap_or(0))
}

fn hash_body(body: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}
