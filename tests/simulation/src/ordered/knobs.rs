//! The knobs of a run on a FIFO queue, drawn from its seed.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redeliver_core::policy::Policy;
use redeliver_core::strategy::Strategy;

/// All inputs of a run.
#[derive(Clone, Debug)]
pub struct OrderedKnobs {
    pub seed: u64,
    pub groups: usize,
    pub messages: Vec<PlannedMessage>,
    /// The event source mapping's `BatchSize`.
    pub batch_size: u16,
    pub environments: usize,
    pub max_concurrency: usize,
    pub rules: OrderedRules,
    /// The source queue's `maxReceiveCount`.
    pub receives_max: u16,
    /// The function's timeout; the queue's visibility timeout is six times as long, as AWS recommends.
    pub function_seconds: u64,
    pub latency_ms: u64,
    /// Duration of the faults. Most messages are sent during this time.
    pub fault_seconds: u64,
    pub outage: Option<OrderedOutage>,
    pub faults: OrderedFaults,
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub struct PlannedMessage {
    pub group: usize,
    pub fate: Fate,
    /// True if the message is sent an hour after the faults.
    pub is_late: bool,
}

/// The target's responses to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Succeeds,
    Fails(u32),
    FailsForEver,
    Permanent,
    Hangs(u32),
    /// The message violates the schema, so the target is never called.
    Invalid,
}

/// The parts of the policy that the judge checks.
#[derive(Clone, Copy, Debug)]
pub struct OrderedRules {
    pub max_attempts: u32,
    pub max_age_seconds: u64,
    /// The delay between retries; `None` for the default, which starts at 5 s and grows to at most 900 s.
    pub delay_seconds: Option<u64>,
    pub has_breaker: bool,
    /// `on_give_up`: a message that is given up blocks its group until a person unblocks it.
    pub blocks: bool,
}

/// A period in which the target is down and responds with `HttpStatus.503`.
#[derive(Clone, Copy, Debug)]
pub struct OrderedOutage {
    /// The affected group; `None` for all groups.
    pub group: Option<usize>,
    pub from_seconds: u64,
    pub seconds: u64,
}

/// Probabilities of faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderedFaults {
    /// Per batch: the process dies.
    pub dies: f64,
    /// Per batch: the function gets only a few seconds to run.
    pub short: f64,
    /// Per batch: the function's response is lost, so Lambda deletes nothing.
    pub response_lost: f64,
    /// Per batch: the process ends afterwards, and its memory is lost.
    pub replaced: f64,
    /// Per call: the call takes up to half of the function's timeout.
    pub slow: f64,
    /// Per request: the request or some of its entries have no effect.
    pub refused: f64,
    /// Per request: the request takes effect, but its response is lost.
    pub unanswered: f64,
    /// Per received record: the record is unreadable. For half of these records, the group is unreadable as well.
    pub unreadable: f64,
}

/// The longest interval between a person's reviews of the blocked groups.
pub(super) const REVIEW_SECONDS_MAX: u64 = 3600;

impl OrderedRules {
    #[must_use]
    pub fn to_policy(self) -> Policy {
        let Self { max_attempts, max_age_seconds, delay_seconds, has_breaker, blocks } = &self;
        let breaker = if *has_breaker { "" } else { r#""circuit_breaker":false,"# };
        let backoff = delay_seconds.map_or_else(String::new, |delay| {
            format!(r#","backoff":{{"kind":"fixed","delay_seconds":{delay},"jitter":"none"}}"#)
        });
        let block = if *blocks { r#""on_give_up":"block","# } else { "" };
        let policy = format!(
            r#"{{{breaker}{block}"max_attempts":{max_attempts},"max_age_seconds":{max_age_seconds}{backoff}}}"#
        );
        Strategy::Ordered.definition().parse_policy(&policy).expect("a valid policy")
    }

    /// Returns the longest delay before a retry.
    #[must_use]
    pub fn delay_seconds_max(&self) -> u64 {
        self.delay_seconds.unwrap_or(900)
    }

    /// Returns the longest time that one environment spends on a message that fails forever.
    #[must_use]
    pub fn retrying_seconds_max(&self) -> u64 {
        let by_attempts = u64::from(self.max_attempts + 1).saturating_mul(self.delay_seconds_max() + 60);
        by_attempts.min(self.max_age_seconds + self.delay_seconds_max())
    }
}

impl OrderedKnobs {
    /// Draws the knobs of a run with at most this many messages.
    #[must_use]
    pub fn from_seed(seed: u64, messages_max: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed ^ 0x0f1f_0000_0000_0000);
        let draw = &mut rng;
        let rules = random_rules(draw);
        let groups = draw.random_range(1..=20);
        let messages = draw.random_range(1..=300).min(messages_max);
        let fault_seconds = draw.random_range(120..=4 * 3600);
        let calm = draw.random_bool(0.1);
        let mut chance =
            |most: f64| if calm || draw.random_bool(0.4) { 0.0 } else { draw.random::<f64>() * most };
        let faults = OrderedFaults {
            dies: chance(0.2),
            short: chance(0.2),
            response_lost: chance(0.1),
            replaced: chance(0.1),
            slow: chance(0.2),
            refused: chance(0.3),
            unanswered: chance(0.2),
            unreadable: unreadable_chance(seed),
        };
        let outage = draw.random_bool(0.4).then(|| OrderedOutage {
            group: draw.random_bool(0.5).then(|| draw.random_range(0..groups)),
            from_seconds: draw.random_range(0..fault_seconds),
            seconds: draw.random_range(60..=5400),
        });
        let mut knobs = Self {
            seed,
            groups,
            messages: plan_messages(draw, messages, groups, rules),
            batch_size: if draw.random_bool(0.5) { 1 } else { 10 },
            environments: draw.random_range(1..=6),
            max_concurrency: draw.random_range(1..=10),
            rules,
            receives_max: if draw.random_bool(0.2) { draw.random_range(5..=50) } else { 1000 },
            function_seconds: draw.random_range(12..=60),
            latency_ms: if draw.random_bool(0.2) { 0 } else { draw.random_range(1..=400) },
            fault_seconds,
            outage,
            faults,
        };
        // Groups can be blocked only with batches of one.
        knobs.rules.blocks = knobs.batch_size == 1 && seed.is_multiple_of(2);
        knobs
    }

    /// Returns the time after which all messages must be done, derived from the largest number of failing messages in a
    /// group.
    #[must_use]
    pub fn settling_seconds_max(&self) -> u64 {
        let memories = if self.batch_size == 1 { 1 } else { self.environments as u64 };
        let failing = |group| {
            let of_group = self.messages.iter().filter(|message| message.group == group);
            of_group.filter(|message| message.fate != Fate::Succeeds).count() as u64
        };
        let most = (0..self.groups).map(failing).max().unwrap_or(0);
        let person = if self.rules.blocks { 2 * REVIEW_SECONDS_MAX } else { 0 };
        // Two extra days cover an open circuit and the visibility timeouts that dead processes leave behind.
        (most + 1) * (memories * self.rules.retrying_seconds_max() + person) + 2 * 86_400
    }
}

/// Draws the probability of unreadable records, which is 0 in two thirds of the runs.
fn unreadable_chance(seed: u64) -> f64 {
    let mut rng = StdRng::seed_from_u64(seed ^ 0x0f1f_0000_0000_0001);
    if rng.random_bool(0.33) { rng.random::<f64>() * 0.2 } else { 0.0 }
}

fn random_rules(rng: &mut StdRng) -> OrderedRules {
    let has_breaker = rng.random_bool(0.5);
    match rng.random_range(0..10) {
        0..2 => OrderedRules {
            max_attempts: 980,
            max_age_seconds: 86_400,
            delay_seconds: None,
            has_breaker,
            blocks: false,
        },
        2..6 => OrderedRules {
            max_attempts: rng.random_range(0..=4),
            max_age_seconds: 86_400,
            // Sometimes longer than the queue's visibility timeout.
            delay_seconds: Some(rng.random_range(1..=400)),
            has_breaker,
            blocks: false,
        },
        _ => OrderedRules {
            max_attempts: 980,
            max_age_seconds: rng.random_range(120..=1800),
            delay_seconds: Some(rng.random_range(2..=60)),
            has_breaker,
            blocks: false,
        },
    }
}

fn plan_messages(
    rng: &mut StdRng,
    messages: usize,
    groups: usize,
    rules: OrderedRules,
) -> Vec<PlannedMessage> {
    let [fails, fails_for_ever, permanent, hangs, invalid] =
        [0.15, 0.04, 0.05, 0.03, 0.03].map(|most| rng.random::<f64>() * most);
    let healthy = rng.random_range(0..=groups / 2);
    // Under the default policy, each of these messages takes a day, and the queue keeps messages for 14 days.
    let for_ever_max = if rules.delay_seconds.is_none() { 1 } else { 5 };
    let late = messages - messages / 10;
    let mut planned = Vec::with_capacity(messages);
    let mut for_ever = vec![0; groups];
    for n in 0..messages {
        let group = rng.random_range(0..groups);
        let mut left = rng.random::<f64>();
        let mut falls = |share: f64| {
            left -= share;
            left < 0.0
        };
        let fate = if group < healthy {
            Fate::Succeeds
        } else if falls(fails) {
            Fate::Fails(rng.random_range(1..=3))
        } else if falls(fails_for_ever) && for_ever[group] < for_ever_max {
            for_ever[group] += 1;
            Fate::FailsForEver
        } else if falls(permanent) {
            Fate::Permanent
        } else if falls(hangs) {
            Fate::Hangs(rng.random_range(1..=2))
        } else if falls(invalid) {
            Fate::Invalid
        } else {
            Fate::Succeeds
        };
        planned.push(PlannedMessage { group, fate, is_late: n >= late });
    }
    planned
}
