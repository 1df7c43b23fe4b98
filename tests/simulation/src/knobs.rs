//! The knobs of a run, drawn from its seed.

use std::num::NonZeroUsize;
use std::ops::Range;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use redeliver_aws::targets::HandlerEvent;
use redeliver_core::strategy::{RetryLoop, Strategy};
use redeliver_embedded::{FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction};

use crate::policy::{BreakerKnob, BreakerModel, PolicyModel};

/// The knobs of one run, printed if it fails.
#[derive(Clone, Debug)]
pub struct SimulationKnobs {
    /// The seed from which all other knobs are drawn.
    pub seed: u64,
    /// Number of messages that the producer sends.
    pub messages: usize,
    /// Duration of the faults in virtual seconds. The producer spreads its messages over the same period.
    pub fault_seconds: u64,
    pub retry_loop: RetryLoop,
    pub policy: PolicyModel,
    /// Numbers of pollers for the three functions, each with one process.
    pub pollers: [usize; 3],
    /// The functions' timeout.
    pub invocation_seconds: u64,
    /// `MAX_CONCURRENCY`; has no effect on a user's own function.
    pub max_concurrency: usize,
    /// The event that the handler receives, if the target is a user's own function.
    pub own_function: Option<HandlerEvent>,
    /// `maxReceiveCount` of the source queue under strategies that hand off failed messages.
    pub source_receives: u16,
    /// Maximum network latency, separately for a request and for its response.
    pub latency_ms: u64,
    /// The largest error of a process's clock.
    pub skew_ms: i64,
    /// SQS faults.
    pub sqs: SqsFaults,
    /// Process faults.
    pub process: ProcessFaults,
    /// Target faults.
    pub target: TargetFaults,
    /// A target outage.
    pub outage: Option<PlannedOutage>,
    /// The capacity of the target, if limited.
    pub capacity: Option<Capacity>,
    /// Lifetime of a process in Lambda.
    pub lifetime_seconds: Option<u64>,
    /// Kinds of messages that the producer sends.
    pub content: ContentMix,
    /// The operator who returns final records to the source queue.
    pub operator: Operator,
    /// Periods in which accepted requests get no response in time.
    pub silences: Silences,
    /// True if the functions can identify the sender of re-sends (`RESEND_SENDER_IDS`).
    pub senders_known: bool,
    /// The final-dlq-annotator's archive and notices.
    pub archiving: Option<ArchiveKnobs>,
    /// Set if the functions write spans.
    pub tracing: Option<TracingKnobs>,
    /// Set if minutes pass between messages, and idle environments end.
    pub thin: Option<SparseTraffic>,
}

/// A queue with one message every few minutes.
#[derive(Clone, Copy, Debug)]
pub struct SparseTraffic {
    /// The idle time after which Lambda ends an environment.
    pub idle_seconds: u64,
}

/// The functions' tracing settings.
#[derive(Clone, Copy, Debug)]
pub struct TracingKnobs {
    /// `TRACE_CONTINUE`.
    pub continues: bool,
}

/// Probabilities per request or per entry.
#[derive(Clone, Debug, Default)]
pub struct SqsFaults {
    /// Sends: throttled.
    pub send_throttled: f64,
    /// Sends: failed with a 5xx.
    pub send_failed: f64,
    /// Sends: the request was lost.
    pub send_lost: f64,
    /// Sends: carried out, but the response was lost.
    pub send_answer_lost: f64,
    /// Individual entries in a send: refused.
    pub entry_refused: f64,
    /// Individual entries in a send: failed with a service error.
    pub entry_failed: f64,
    /// Individual entries in a send: carried out, but reported as failed.
    pub entry_answer_lost: f64,
    /// Receives: carried out, but the response was lost.
    pub receive_answer_lost: f64,
    /// Receives: throttled.
    pub receive_throttled: f64,
    /// Receives: failed with a 5xx, or the request was lost.
    pub receive_failed: f64,
    /// Deletes: the request was lost, or an entry failed.
    pub delete_failed: f64,
    /// Deletes: carried out, but the response was lost.
    pub delete_answer_lost: f64,
    /// Other requests, for visibility and depth: failed or lost.
    pub other_failed: f64,
}

/// Probabilities per batch.
#[derive(Clone, Debug, Default)]
pub struct ProcessFaults {
    /// The process dies after a few polls: before, between or after its awaits.
    pub dies: f64,
    /// The invocation is throttled: messages are received, but no function is called.
    pub throttled: f64,
    /// The batch is delivered to a second process at the same time.
    pub duplicate: f64,
    /// The records from several receives are mixed into new batches.
    pub reorder: f64,
    /// The function's response is lost, so nothing is deleted.
    pub response_lost: f64,
    /// The annotator does not run at all.
    pub annotator_broken: bool,
}

/// Probabilities per call.
#[derive(Clone, Debug, Default)]
pub struct TargetFaults {
    /// A transient error.
    pub transient: f64,
    /// A transient error with a `Retry-After`.
    pub retry_after: f64,
    /// A permanent error.
    pub permanent: f64,
    pub snooze: f64,
    pub panic: f64,
    /// No response at all.
    pub hang: f64,
    /// A response after up to twice the function's timeout.
    pub slow: f64,
    /// Own function only: a response that cannot be interpreted.
    pub unclear: f64,
    /// Own function only: the failure of one record is thrown or reported for all records.
    pub throws: f64,
    /// The share of messages that always fail transiently.
    pub always_transient: f64,
    /// True if all messages without a group always fail transiently.
    pub ungrouped_fail: bool,
    /// The share of messages that always fail permanently.
    pub always_permanent: f64,
}

/// The target's capacity; further calls are refused with 429.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Maximum number of calls per window.
    pub calls: u32,
    /// Length of a window in seconds.
    pub seconds: u32,
    /// The `Retry-After` of a refusal.
    pub asks: RequestedDelay,
}

/// The `Retry-After` that a target at capacity sends when it refuses a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedDelay {
    /// No `Retry-After`.
    Nothing,
    /// The time until the target accepts calls again.
    UntilAvailable,
    /// A ban. Each premature call doubles its duration.
    Ban,
}

impl Capacity {
    fn random(rng: &mut impl Rng) -> Self {
        let asks = [
            RequestedDelay::Nothing,
            RequestedDelay::Nothing,
            RequestedDelay::UntilAvailable,
            RequestedDelay::Ban,
        ];
        Self {
            calls: rng.random_range(1..=5),
            seconds: rng.random_range(1..=10),
            asks: asks[rng.random_range(0..asks.len())],
        }
    }
}

/// The archive and the notices, with their fault probabilities per request.
#[derive(Clone, Debug)]
pub struct ArchiveKnobs {
    /// True if there is a bucket; otherwise there are only notices.
    pub has_bucket: bool,
    pub has_notices: bool,
    /// The bucket refuses the request.
    pub refused: f64,
    /// The request is lost.
    pub request_lost: f64,
    /// The request is carried out, but the response is lost.
    pub answer_lost: f64,
    /// The request is carried out, but the response takes up to twice the functions' timeout.
    pub answer_late: f64,
    /// The request is carried out, but never answered.
    pub answer_never: f64,
    /// The topic refuses the request.
    pub notice_refused: f64,
    /// The bucket refuses all requests during these seconds of the run.
    pub outage_seconds: Option<Range<u64>>,
}

impl ArchiveKnobs {
    fn random(fault_seconds: u64, rng: &mut impl Rng) -> Self {
        let faulty = rng.random_bool(0.85);
        let mut some = |most: f64| random_chance(rng, if faulty { most } else { 0.0 });
        let (refused, request_lost, answer_lost) = (some(0.4), some(0.2), some(0.3));
        let (answer_late, answer_never, notice_refused) = (some(0.3), some(0.1), some(0.3));
        let outage = rng.random_range(0..fault_seconds);
        let outage = outage..outage + rng.random_range(60..=fault_seconds);
        let (has_bucket, has_notices) =
            [(true, true), (true, true), (true, true), (true, false), (false, true)][rng.random_range(0..5)];
        Self {
            has_bucket,
            has_notices,
            refused,
            request_lost,
            answer_lost,
            answer_late,
            answer_never,
            notice_refused,
            outage_seconds: Some(outage).filter(|_| faulty && rng.random_bool(0.3)),
        }
    }
}

/// A period in which the target is down.
#[derive(Clone, Copy, Debug)]
pub struct PlannedOutage {
    /// The affected calls.
    pub shape: OutageScope,
    /// The effect on a call.
    pub down: OutageEffect,
    /// Start of the outage, in seconds after the start of the run.
    pub from_seconds: u32,
    /// Duration in seconds.
    pub seconds: u32,
}

/// The calls affected by an outage.
#[derive(Clone, Copy, Debug)]
pub enum OutageScope {
    /// All calls.
    Whole,
    /// All calls for 20 seconds, none for the next 20.
    Flapping,
    /// Three calls in ten.
    Partial,
    /// Calls for one tenant.
    OneTenant,
    /// Calls for three of the seven tenants.
    SomeTenants,
}

/// The effect of an outage on a call.
#[derive(Clone, Copy, Debug)]
pub enum OutageEffect {
    /// An error that means "not now".
    Refuses,
    /// An error that the message itself might have caused.
    Breaks,
    /// An error that the handler reports as an outage.
    ReportsOutage,
    /// No response until the call is cut off.
    Hangs,
}

impl PlannedOutage {
    fn random(fault_seconds: u64, rng: &mut impl Rng) -> Self {
        let shapes = [
            OutageScope::Whole,
            OutageScope::Whole,
            OutageScope::Flapping,
            OutageScope::Partial,
            OutageScope::OneTenant,
            OutageScope::SomeTenants,
        ];
        let downs = [
            OutageEffect::Refuses,
            OutageEffect::Refuses,
            OutageEffect::Breaks,
            OutageEffect::Breaks,
            OutageEffect::ReportsOutage,
            OutageEffect::Hangs,
        ];
        let all = u32::try_from(fault_seconds).unwrap_or(u32::MAX);
        // Half of the outages begin with the run, so that every process starts during the outage.
        let from_seconds = if rng.random_bool(0.5) { 0 } else { rng.random_range(0..all) };
        Self {
            shape: shapes[rng.random_range(0..shapes.len())],
            down: downs[rng.random_range(0..downs.len())],
            from_seconds,
            seconds: rng.random_range(1..=all),
        }
    }
}

/// Probabilities per message.
#[derive(Clone, Debug, Default)]
pub struct ContentMix {
    /// The message is invalid.
    pub poison: f64,
    /// Ten message attributes.
    pub attribute_full: f64,
    /// Attributes that look like redeliver's.
    pub forged: f64,
    /// Metadata from earlier deliveries, forged by the producer.
    pub earlier_life: f64,
    /// `expires_at` and, independently with the same probability, `max_attempts`.
    pub expires: f64,
    /// Exactly or nearly as large as SQS allows.
    pub oversize: f64,
    /// Within 300 bytes of SQS's limit.
    pub brimful: f64,
    /// The producer sends the message twice.
    pub sent_twice: f64,
    /// True if the functions use [`DATA_SCHEMA`] for `data`, which some invalid messages violate.
    pub data_schema: bool,
    /// No envelope. If the probability is not 0, the functions accept such messages.
    pub plain: f64,
}

/// Periods in which SQS and Lambda accept what the functions and `redeliver redrive` send, but the response is late, a
/// service failure, or missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silences {
    /// Time from the start of a silence to the start of the next; 0 for no silences.
    pub every_seconds: u64,
    /// Duration of each silence.
    pub seconds: u64,
}

/// See [`ContentMix::data_schema`].
pub const DATA_SCHEMA: &str = r#"{"type":"object","properties":{"forbidden":false}}"#;

/// The operator who returns final records to the source queue during the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    None,
    /// Moves final records back unchanged, as the SQS console does.
    Console,
    /// Uses `redeliver redrive`.
    Redrive,
}

impl SimulationKnobs {
    /// Draws the knobs for a seed. Each kind of fault is active in about half of the runs, so that it also occurs
    /// without the others.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let messages = log_uniform(rng, 5.0, 3000.0);
        let invocation_seconds = rng.random_range(6..=60);
        // In some runs, only the target has faults. In those runs, each message must be settled exactly once.
        let faulty = rng.random_bool(0.85);
        let mut some = |most: f64| random_chance(rng, if faulty { most } else { 0.0 });
        let sqs = SqsFaults {
            send_throttled: some(0.3),
            send_failed: some(0.2),
            send_lost: some(0.2),
            send_answer_lost: some(0.1),
            entry_refused: some(0.1),
            entry_failed: some(0.2),
            entry_answer_lost: some(0.1),
            receive_answer_lost: some(0.1),
            receive_throttled: some(0.3),
            receive_failed: some(0.2),
            delete_failed: some(0.05),
            delete_answer_lost: some(0.2),
            other_failed: some(0.2),
        };
        let process = ProcessFaults {
            dies: some(0.4),
            throttled: some(0.3),
            duplicate: some(0.1),
            reorder: some(0.5),
            response_lost: some(0.1),
            annotator_broken: some(1.0) > 0.8,
        };
        let target = TargetFaults {
            transient: random_chance(rng, 0.9),
            retry_after: random_chance(rng, 0.3),
            permanent: random_chance(rng, 0.1),
            snooze: random_chance(rng, 0.25),
            panic: random_chance(rng, 0.1),
            hang: random_chance(rng, 0.05),
            slow: random_chance(rng, 0.2),
            unclear: 0.0,
            throws: 0.0,
            ungrouped_fail: false,
            always_transient: random_chance(rng, 0.2),
            always_permanent: random_chance(rng, 0.2),
        };
        let content = ContentMix {
            poison: random_chance(rng, 0.3),
            attribute_full: random_chance(rng, 0.3),
            forged: random_chance(rng, 0.2),
            earlier_life: random_chance(rng, 0.4),
            expires: random_chance(rng, 0.2),
            // There are only a few, because each one takes up a mebibyte on every hop.
            oversize: random_chance(rng, 0.02).min(3.0 / messages as f64),
            brimful: 0.0,
            sent_twice: random_chance(rng, 0.1),
            data_schema: rng.random_bool(0.3),
            plain: 0.0,
        };
        let retry_loop = match rng.random_range(0..20) {
            0..4 => Strategy::Visibility.into(),
            4..7 => RetryLoop::AsyncRetry,
            7..13 => Strategy::DirectResend.into(),
            _ => Strategy::DelayedResend.into(),
        };
        let visibility = retry_loop == Strategy::Visibility.into();
        let asynchronous = retry_loop == RetryLoop::AsyncRetry;
        // A message that stays on its queue keeps its `SentTimestamp`, so all of its retries must fit within the
        // retention period.
        let policy = PolicyModel::random(rng, if visibility { 10_000 } else { 43_200 });
        let policy = if visibility { PolicyModel { max_redrives: None, ..policy } } else { policy };
        // Asynchronous payloads can be any JSON. Other seeds combine SQS faults with other kinds of messages.
        let (policy, content) = if asynchronous {
            let breaker = BreakerKnob::Off;
            let policy = PolicyModel { immediate: None, max_redrives: None, breaker, ..policy };
            (policy, ContentMix::default())
        } else {
            (policy, content)
        };
        // A message that the target always refuses is held until it reaches its hold limit. The default limit of a day
        // would take too many rounds.
        let policy = match policy.breaker {
            BreakerKnob::Absent if target.always_transient > 0.0 => {
                let short = BreakerModel { hold_seconds_max: 2000, ..BreakerModel::default() };
                PolicyModel { breaker: BreakerKnob::On(short), ..policy }
            }
            _ => policy,
        };
        let operators = [Operator::None, Operator::Console, Operator::Redrive];
        let fault_seconds = rng.random_range(60..=6 * 3600);
        let outage = rng.random_bool(0.5).then(|| PlannedOutage::random(fault_seconds, rng));
        let lifetime_seconds = rng.random_bool(0.4).then(|| rng.random_range(0..=900));
        let mut knobs = Self {
            seed,
            messages,
            fault_seconds,
            outage,
            capacity: None,
            lifetime_seconds,
            retry_loop,
            policy,
            pollers: [rng.random_range(1..=4), rng.random_range(1..=3), rng.random_range(1..=2)],
            invocation_seconds,
            max_concurrency: rng.random_range(1..=10),
            own_function: None,
            source_receives: if rng.random_bool(0.8) { 1 } else { rng.random_range(2..=10) },
            latency_ms: if faulty && rng.random_bool(0.8) { log_uniform(rng, 1.0, 2000.0) as u64 } else { 0 },
            skew_ms: if rng.random_bool(0.5) { rng.random_range(0..120_000) } else { 0 },
            sqs,
            process,
            target,
            content,
            operator: operators
                [if faulty && !asynchronous { rng.random_range(0..operators.len()) } else { 0 }],
            silences: if faulty && rng.random_bool(0.4) {
                Silences::random(rng)
            } else {
                Silences::default()
            },
            senders_known: true,
            archiving: None,
            tracing: None,
            thin: None,
        };
        // Drawn last, so that runs without plain messages stay as they were before this option existed.
        let plain = random_chance(rng, 1.0);
        knobs.content.plain = if asynchronous { 0.0 } else { plain };
        knobs.senders_known = rng.random_bool(0.7);
        let brimful = random_chance(rng, 0.05).min(5.0 / messages as f64);
        knobs.content.brimful = if asynchronous { 0.0 } else { brimful };
        // A handler cannot see how long a plain message was held. With two copies in a batch, it would be unclear which
        // copy bypasses the breaker at its hold limit, so no copy is held that long.
        if knobs.content.plain > 0.0 && !matches!(knobs.policy.breaker, BreakerKnob::Off) {
            knobs.target.always_transient = 0.0;
            if let BreakerKnob::On(breaker) = &mut knobs.policy.breaker {
                breaker.hold_seconds_max = 172_800;
            }
        }
        // Drawn last and in every run, so that runs without a user's own function are as before this option existed.
        let own_function = [HandlerEvent::Record, HandlerEvent::Batch][rng.random_range(0..2)];
        let own_function = rng.random_bool(1.0 / 3.0).then_some(own_function);
        let (unclear, throws) = (random_chance(rng, 0.2), random_chance(rng, 0.3));
        knobs.own_function = own_function.filter(|_| !asynchronous);
        knobs.target = TargetFaults { unclear, throws, ..knobs.target };
        if knobs.own_function == Some(HandlerEvent::Batch) {
            // A batch handler cannot report a permanent failure of a single record.
            knobs.target.always_permanent = 0.0;
        }
        // Drawn last, for the same reason.
        let (is_limited, capacity) = (rng.random_bool(0.25), Capacity::random(rng));
        let (is_busy, seconds) = (rng.random_bool(0.7), rng.random_range(60..=1200));
        if is_limited && !asynchronous {
            knobs.capacity = Some(capacity);
            // Other runs cover targets that also fail in other ways. Here, messages must arrive faster than the target
            // accepts calls.
            if is_busy {
                knobs.fault_seconds = fault_seconds.min(seconds);
                let TargetFaults { always_transient, always_permanent, .. } = knobs.target;
                knobs.target = TargetFaults { always_transient, always_permanent, ..TargetFaults::default() };
                knobs.outage = None;
            }
        }
        // A few always-failing messages should be enough to open a circuit that no other message's success closes.
        let (fails, hold_seconds_max) = (rng.random_bool(0.15), rng.random_range(4000..=8000));
        let may_be_held = !matches!(knobs.policy.breaker, BreakerKnob::Off);
        if fails && may_be_held && !asynchronous {
            knobs.content.plain = 0.0;
            knobs.target.ungrouped_fail = true;
            knobs.target.always_transient = knobs.target.always_transient.max(0.001);
            let per_group = BreakerModel { hold_seconds_max, ..BreakerModel::default() };
            knobs.policy.breaker = BreakerKnob::On(per_group);
            knobs.messages = knobs.messages.min(300);
        }
        // A separate generator keeps runs without an archive and notices as they were before this option existed.
        let rng = &mut StdRng::seed_from_u64(seed ^ 0xa7c4_17e5);
        if rng.random_bool(0.3) {
            // Several days are long enough for several notices about the same cause.
            if rng.random_bool(0.3) {
                knobs.fault_seconds = rng.random_range(86_400..=3 * 86_400);
                knobs.messages = knobs.messages.min(200);
            }
            knobs.archiving = Some(ArchiveKnobs::random(knobs.fault_seconds, rng));
        }
        // Also drawn from a separate generator, for the same reason.
        let rng = &mut StdRng::seed_from_u64(seed ^ 0x7ace_5eed);
        let continues = rng.random_bool(0.5);
        knobs.tracing = rng.random_bool(0.7).then_some(TracingKnobs { continues });
        if seed.is_multiple_of(3) {
            knobs.make_sparse();
        }
        knobs
    }

    /// Makes the traffic sparse: minutes pass between messages, and outages last for hours.
    fn make_sparse(&mut self) {
        let rng = &mut StdRng::seed_from_u64(self.seed ^ 0x7417_5eed);
        let pause_seconds = rng.random_range(60..=1200);
        self.messages = self.messages.min(rng.random_range(10..=100));
        self.fault_seconds = (self.messages as u64 * pause_seconds).max(3600);
        self.thin = Some(SparseTraffic { idle_seconds: rng.random_range(120..=900) });
        self.capacity = None;
        // With an outage of only one tenant, the affected messages would be hours apart.
        if rng.random_bool(0.7) {
            self.outage = Some(PlannedOutage {
                shape: OutageScope::Whole,
                ..PlannedOutage::random(self.fault_seconds, rng)
            });
        }
        // The consequences of an outage are easiest to see without other errors.
        if rng.random_bool(0.5) {
            let TargetFaults { always_transient, ungrouped_fail, .. } = self.target;
            self.target = TargetFaults { always_transient, ungrouped_fail, ..TargetFaults::default() };
        }
    }

    /// Returns the maximum number of concurrent calls per batch.
    #[must_use]
    pub fn max_concurrency(&self) -> NonZeroUsize {
        let many = NonZeroUsize::new(self.max_concurrency).unwrap_or(NonZeroUsize::MIN);
        self.own_function.map_or(many, HandlerEvent::max_concurrency)
    }

    /// Returns true if failed messages stay hidden on the source queue.
    #[must_use]
    pub fn uses_visibility(&self) -> bool {
        self.retry_loop == Strategy::Visibility.into()
    }

    /// Returns true if Lambda invokes the target asynchronously.
    #[must_use]
    pub fn uses_async_retry(&self) -> bool {
        self.retry_loop == RetryLoop::AsyncRetry
    }

    /// Returns the circuit breaker's settings, if enabled.
    #[must_use]
    pub fn breaker_model(&self) -> Option<BreakerModel> {
        match &self.policy.breaker {
            // With the strategy `visibility`, the breaker is off by default.
            BreakerKnob::Absent => (!self.uses_visibility()).then(BreakerModel::default),
            BreakerKnob::Off => None,
            BreakerKnob::On(breaker) => Some(breaker.clone()),
        }
    }

    /// Returns the visibility timeout of the queues: six times the functions' timeout, as in the stack.
    #[must_use]
    pub fn visibility_seconds(&self) -> u64 {
        6 * self.invocation_seconds
    }

    /// Returns the `maxReceiveCount` of the source queue.
    #[must_use]
    pub fn source_max_receive_count(&self) -> u32 {
        match self.retry_loop.strategy() {
            None => 100,
            Some(Strategy::Visibility) => self.policy.max_attempts + 10,
            Some(Strategy::Ordered) => 1000,
            Some(Strategy::DelayedResend | Strategy::DirectResend) => self.source_receives.into(),
        }
    }

    /// Returns the `maxReceiveCount` of the annotation queue: ten more than the receive count at which SQS can move a
    /// message there.
    #[must_use]
    pub fn annotation_max_receive_count(&self) -> u16 {
        let brought = if self.uses_visibility() { self.source_max_receive_count() } else { 100 };
        u16::try_from(brought + 10).unwrap_or(u16::MAX)
    }

    /// Returns true if nothing in this run can create a copy, so that each message must be settled exactly once.
    #[must_use]
    pub fn makes_no_copies(&self) -> bool {
        let SqsFaults { send_throttled, send_failed, send_lost, send_answer_lost, .. } = self.sqs;
        let SqsFaults { entry_answer_lost, delete_failed, .. } = self.sqs;
        let ProcessFaults { dies, duplicate, response_lost, .. } = self.process;
        let faults =
            [send_throttled, send_failed, send_lost, send_answer_lost, entry_answer_lost, delete_failed];
        // With latency, the end of an invocation can cut off a request whose response is in transit.
        self.latency_ms == 0
            && self.operator == Operator::None
            && self.silences.seconds == 0
            && faults.into_iter().chain([dies, duplicate, response_lost]).all(|chance| chance <= 0.0)
    }

    /// Builds the fault plan for SQS.
    #[must_use]
    pub fn fault_plan(&self) -> FaultPlan {
        let SqsFaults { send_throttled, send_failed, send_lost, send_answer_lost, .. } = self.sqs;
        let SqsFaults { entry_refused, entry_failed, entry_answer_lost, .. } = self.sqs;
        let SqsFaults { receive_answer_lost, receive_throttled, receive_failed, .. } = self.sqs;
        let SqsFaults { delete_failed, delete_answer_lost, other_failed, .. } = self.sqs;
        let (hide, depth) = (SqsAction::ChangeMessageVisibilityBatch, SqsAction::GetQueueAttributes);
        let (send, receive, delete) =
            (SqsAction::SendMessageBatch, SqsAction::ReceiveMessage, SqsAction::DeleteMessageBatch);
        let (request, entry) = (FaultScope::Request, FaultScope::Entry);
        let rules = [
            (send, request, send_throttled, Injection::Throttled),
            (send, request, send_failed, Injection::Service),
            (send, request, send_lost, Injection::LostRequest),
            (send, request, send_answer_lost, Injection::LostResponse),
            (send, entry, entry_refused, Injection::Sender),
            (send, entry, entry_failed, Injection::Service),
            (send, entry, entry_answer_lost, Injection::LostResponse),
            (receive, request, receive_answer_lost, Injection::LostResponse),
            (receive, request, receive_throttled, Injection::Throttled),
            (receive, request, receive_failed, Injection::Service),
            (receive, request, receive_failed, Injection::LostRequest),
            (delete, request, delete_failed, Injection::LostRequest),
            (delete, entry, delete_failed, Injection::Service),
            (delete, request, delete_answer_lost, Injection::LostResponse),
            (delete, request, delete_failed, Injection::Throttled),
            (hide, request, other_failed, Injection::Service),
            (hide, entry, other_failed, Injection::LostResponse),
            (depth, request, other_failed, Injection::LostRequest),
        ];
        rules.into_iter().filter(|(_, _, chance, _)| *chance > 0.0).fold(
            FaultPlan::new(self.seed),
            |plan, (action, scope, chance, injection)| {
                plan.with_rule(FaultRule {
                    action,
                    queue: None,
                    scope,
                    when: FaultTrigger::Chance(chance),
                    injection,
                })
            },
        )
    }
}

impl Silences {
    fn random(rng: &mut impl Rng) -> Self {
        let seconds = rng.random_range(30..=600);
        Self { every_seconds: seconds * rng.random_range(3..=20), seconds }
    }
}

/// Draws a probability: 0 half of the time, and otherwise a value below `most`.
fn random_chance(rng: &mut impl Rng, most: f64) -> f64 {
    if most > 0.0 && rng.random_bool(0.5) { rng.random_range(0.0..most) } else { 0.0 }
}

/// Draws a log-uniform number: 10 to 100 is as likely as 100 to 1000.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the two limits")]
fn log_uniform(rng: &mut impl Rng, least: f64, most: f64) -> usize {
    rng.random_range(least.ln()..most.ln()).exp() as usize
}
