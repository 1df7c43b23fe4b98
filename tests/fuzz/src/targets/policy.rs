//! The retry policy: only valid policies are accepted, each is interpreted as written, and its delays are in range for
//! every attempt.

use redeliver_core::decide::backoff::{JitterKey, retry_after_delay, retry_delay};
use redeliver_core::limits::RetryDelay;
use redeliver_core::policy::{Backoff, CircuitBreaker, CircuitScope, Globs, Jitter, Policy, PolicyError};
use uuid::Uuid;

use crate::json::{self, JsonMember, JsonNode, NodeKind};

pub(super) fn check(text: &str) {
    let node = json::parse_json(text);
    match Policy::from_json(text) {
        Ok(policy) => {
            let node = node.unwrap_or_else(|wrong| panic!("{wrong:?}, but accepted: {text:?}"));
            let written = WrittenPolicy { text, node: &node };
            assert!(written.has_only_known_names(), "accepted: {text:?}");
            written.check_interpretation(&policy);
            let most = policy.backoff.longest_delay(policy.delay_limit());
            let additive = [0, 1, most.get() / 2, most.get()].map(|max| Jitter::Additive {
                max: RetryDelay::new(max.into()).expect("at most the longest"),
            });
            for jitter in [Jitter::None, Jitter::Half, Jitter::Full].into_iter().chain(additive) {
                check_delays(&with_jitter(&policy, jitter));
            }
            for globs in [&policy.retryable, &policy.non_retryable].into_iter().flatten() {
                check_globs(globs);
            }
        }
        // Lone surrogates and extreme numbers are valid JSON, but not in a policy.
        Err(PolicyError::NotJson(_)) => {
            assert!(node.is_err() || text.contains("\\u") || text.contains(['e', 'E']), "{text:?} is JSON");
        }
        Err(PolicyError::NotForStrategy(_)) => panic!("no strategy was given: {text:?}"),
        Err(PolicyError::Refused(violations)) => {
            assert!(!violations.is_empty());
            if let Ok(node) = &node {
                assert!(!(WrittenPolicy { text, node }).is_certainly_valid(), "{violations:?}: {text:?}");
            }
        }
    }
}

/// A policy in its written form.
struct WrittenPolicy<'a> {
    text: &'a str,
    node: &'a JsonNode,
}

impl WrittenPolicy<'_> {
    fn has_only_known_names(&self) -> bool {
        let known = [
            "preset",
            "max_attempts",
            "backoff",
            "max_age_seconds",
            "long_delays",
            "immediate",
            "retryable",
            "non_retryable",
            "circuit_breaker",
            "max_redrives",
        ];
        let breaker_members = ["per", "opens_on", "hold_seconds_max"];
        let backoff_members: &[&str] = match self.backoff_kind().as_deref() {
            None => &[],
            Some("uniform") => &["kind", "max_delay_seconds"],
            Some("exponential") => {
                &["kind", "initial_delay_seconds", "rate", "offset_seconds", "max_delay_seconds", "jitter"]
            }
            Some("fixed") => &["kind", "delay_seconds", "jitter"],
            Some("schedule") => &["kind", "delays_seconds", "jitter"],
            Some(other) => panic!("kind {other} is accepted: {:?}", self.text),
        };
        let all = |node: &JsonNode, known: &[&str]| {
            let members = node.members();
            members
                .is_some_and(|members| members.iter().all(|one| known.iter().any(|name| one.has_name(name))))
                && !node.has_duplicate()
        };
        all(self.node, &known)
            && self.backoff().is_none_or(|backoff| all(backoff, backoff_members))
            && self.breaker().is_none_or(|breaker| self.is_false(breaker) || all(breaker, &breaker_members))
    }

    /// Returns true if the policy is certainly valid: it has only simple members, each at most once, with values in
    /// range.
    fn is_certainly_valid(&self) -> bool {
        let members = self.node.members();
        let plain = ["max_attempts", "max_age_seconds", "max_redrives", "circuit_breaker"];
        members.is_some_and(|members| {
            members.iter().all(|member| plain.iter().any(|name| member.has_name(name)))
        }) && !self.node.has_duplicate()
            && self
                .node
                .member("max_attempts")
                .is_none_or(|member| self.is_integer_in(&member.value, 0, 1000))
            && self
                .node
                .member("max_age_seconds")
                .is_none_or(|member| self.is_integer_in(&member.value, 1, 1_209_600))
            && self
                .node
                .member("max_redrives")
                .is_none_or(|member| self.is_integer_in(&member.value, 0, 1000))
            && self.breaker().is_none_or(|breaker| self.is_false(breaker) || self.is_plain_breaker(breaker))
    }

    /// Returns true if the breaker's settings are certainly valid: a plain number, and a key without escapes.
    fn is_plain_breaker(&self, breaker: &JsonNode) -> bool {
        let known = ["per", "hold_seconds_max"];
        let are_known = |members: &[JsonMember]| {
            members.iter().all(|member| known.iter().any(|name| member.has_name(name)))
        };
        let is_key = |key: &str| match key.strip_prefix("\"attribute:") {
            Some(rest) => rest
                .strip_suffix('"')
                .is_some_and(|name| (1..=256).contains(&name.len()) && name.chars().all(is_plain)),
            None => ["\"group\"", "\"target\""].contains(&key),
        };
        breaker.members().is_some_and(are_known)
            && !breaker.has_duplicate()
            && breaker.member("per").is_none_or(|member| is_key(&self.text[member.value.at.clone()]))
            && breaker
                .member("hold_seconds_max")
                .is_none_or(|member| self.is_integer_in(&member.value, 60, 1_209_600))
    }

    fn breaker(&self) -> Option<&JsonNode> {
        self.node.member("circuit_breaker").map(|member| &member.value)
    }

    fn is_false(&self, node: &JsonNode) -> bool {
        &self.text[node.at.clone()] == "false"
    }

    fn is_integer_in(&self, node: &JsonNode, least: u32, most: u32) -> bool {
        self.text[node.at.clone()].parse().is_ok_and(|number: u32| (least..=most).contains(&number))
    }

    fn backoff(&self) -> Option<&JsonNode> {
        self.node.member("backoff").map(|member| &member.value)
    }

    fn backoff_kind(&self) -> Option<String> {
        self.backoff()?.member("kind")?.value.string()
    }

    fn number(&self, node: Option<&JsonNode>, name: &str) -> Option<f64> {
        self.text[node?.member(name)?.value.at.clone()].parse().ok()
    }

    fn check_interpretation(&self, policy: &Policy) {
        let text = self.text;
        let top = |name| self.number(Some(self.node), name);
        let backoff_number = |name| self.number(self.backoff(), name);
        let seconds = |delay: RetryDelay| f64::from(delay.get());
        assert_eq!(policy.max_redrives.map(f64::from), top("max_redrives"), "{text:?}");
        assert!(policy.redrives_max() <= 1000, "{text:?}");
        self.check_breaker(policy.circuit_breaker.as_ref());
        if self.node.member("preset").is_some() {
            assert!(self.backoff().is_none(), "both a preset and a backoff: {text:?}");
            assert!(matches!(policy.backoff, Backoff::Exponential { .. }), "{text:?}");
            return;
        }
        let long =
            self.node.member("long_delays").is_some_and(|member| &text[member.value.at.clone()] == "true");
        assert_eq!(policy.long_delays, long, "{text:?}");
        let limit = if long { 43_200 } else { 900 };
        assert!(policy.backoff.longest_delay(policy.delay_limit()).get() <= limit, "{text:?}");
        assert!(policy.max_age_seconds.is_none_or(|age| long || age <= 1_209_600), "{text:?}");
        assert_eq!(policy.immediate.is_some(), self.node.member("immediate").is_some(), "{text:?}");
        assert_eq!(f64::from(policy.max_attempts), top("max_attempts").unwrap_or(5.0), "{text:?}");
        assert!(policy.max_attempts <= 1000, "{text:?}");
        assert_eq!(policy.max_age_seconds.map(f64::from), top("max_age_seconds"), "{text:?}");
        let most = backoff_number("max_delay_seconds").unwrap_or(900.0);
        match (&policy.backoff, self.backoff_kind().as_deref()) {
            (Backoff::Uniform { max_delay }, None | Some("uniform")) => assert_eq!(seconds(*max_delay), most),
            (
                Backoff::Exponential { initial_delay, rate, offset, max_delay, jitter },
                Some("exponential"),
            ) => {
                assert_eq!(seconds(*offset), backoff_number("offset_seconds").unwrap_or(0.0), "{text:?}");
                assert_eq!(
                    Some(seconds(*initial_delay)),
                    backoff_number("initial_delay_seconds"),
                    "{text:?}"
                );
                assert_eq!(*rate, backoff_number("rate").unwrap_or(2.0), "{text:?}");
                assert!((1.0..=100.0).contains(rate), "{text:?}");
                assert_eq!(seconds(*max_delay), most, "{text:?}");
                assert!(initial_delay <= max_delay, "{text:?}");
                self.check_jitter(*jitter);
            }
            (Backoff::Fixed { delay, jitter }, Some("fixed")) => {
                assert_eq!(Some(seconds(*delay)), backoff_number("delay_seconds"), "{text:?}");
                self.check_jitter(*jitter);
            }
            (Backoff::Schedule { delays, jitter }, Some("schedule")) => {
                let list = self.backoff().and_then(|backoff| backoff.member("delays_seconds"));
                let Some(NodeKind::Array(items)) = list.map(|list| &list.value.kind) else {
                    panic!("no list: {text:?}");
                };
                let written = items.iter().map(|item| text[item.at.clone()].parse().ok());
                let read = delays.iter().map(|delay| Some(seconds(delay)));
                assert!(written.eq(read), "{text:?}");
                self.check_jitter(*jitter);
            }
            (backoff, kind) => panic!("{kind:?} became {backoff:?}"),
        }
        assert_eq!(policy.retryable.is_some(), self.node.member("retryable").is_some(), "{text:?}");
        assert_eq!(policy.non_retryable.is_some(), self.node.member("non_retryable").is_some(), "{text:?}");
    }

    /// Checks the circuit breaker, which is `None` for `false`. The expected defaults are the documented ones.
    fn check_breaker(&self, breaker: Option<&CircuitBreaker>) {
        let (text, written) = (self.text, self.breaker());
        let Some(breaker) = breaker else {
            assert!(written.is_some_and(|written| self.is_false(written)), "{text:?}");
            return;
        };
        assert!(!written.is_some_and(|written| self.is_false(written)), "{text:?}");
        let CircuitBreaker { per, opens_on, hold_max } = breaker;
        let hold_seconds = self.number(written, "hold_seconds_max").unwrap_or(86_400.0);
        assert_eq!(hold_max.as_secs_f64(), hold_seconds, "{text:?}");
        assert!((60..=1_209_600).contains(&hold_max.as_secs()), "{text:?}");
        let key = written.and_then(|written| written.member("per")).map(|member| member.value.string());
        let key = key.map_or("group".to_owned(), |key| key.unwrap_or_else(|| panic!("no string: {text:?}")));
        match per {
            CircuitScope::Group => assert_eq!(key, "group", "{text:?}"),
            CircuitScope::Target => assert_eq!(key, "target", "{text:?}"),
            CircuitScope::Attribute(name) => {
                assert_eq!(key, format!("attribute:{name}"), "{text:?}");
                assert!((1..=256).contains(&name.len()) && name.chars().all(is_plain), "{text:?}");
            }
        }
        let names = written.is_some_and(|written| written.member("opens_on").is_some());
        assert_eq!(opens_on.is_some(), names, "{text:?}");
        opens_on.iter().for_each(check_globs);
    }

    fn check_jitter(&self, jitter: Jitter) {
        let written = self.backoff().and_then(|backoff| backoff.member("jitter"));
        if let Jitter::Additive { max } = jitter {
            let most = self.number(written.map(|written| &written.value), "max_seconds");
            assert_eq!(Some(f64::from(max.get())), most, "{:?}", self.text);
            return;
        }
        let written = written.and_then(|written| written.value.string());
        let expected = match written.as_deref() {
            None | Some("full") => Jitter::Full,
            Some("half") => Jitter::Half,
            Some("none") => Jitter::None,
            Some(other) => panic!("jitter {other} is accepted"),
        };
        assert_eq!(jitter, expected, "{:?}", self.text);
    }
}

/// Returns true if the character is allowed in the name of an attribute that selects circuits.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&character)
}

/// Checks the delays for every attempt that the policy allows, for one more, and for attempts 1000 and 10,000.
fn check_delays(policy: &Policy) {
    let attempts = (0..=policy.max_attempts + 1).chain([1000, 10_000]);
    let mut before = 0;
    for attempt in attempts {
        let key = JitterKey {
            message_id: Uuid::from_u128(u128::from(attempt) << 64 | 7),
            generation: 100,
            attempt,
        };
        let found = retry_delay(policy, key);
        let base = base_delay(&policy.backoff, attempt);
        let cap = match policy.backoff {
            Backoff::Uniform { max_delay } | Backoff::Exponential { max_delay, .. } => max_delay,
            _ => policy.delay_limit(),
        };
        let (least, most) = match backoff_jitter(&policy.backoff) {
            Jitter::None => (base, base),
            Jitter::Half => (base.div_ceil(2), base),
            Jitter::Full => (0, base),
            Jitter::Additive { max } => {
                let least = base.min(cap.get() - max.get());
                (least, least + max.get())
            }
        };
        assert!(most <= cap.get(), "above the cap: {policy:?}");
        assert!((least..=most).contains(&found.get()), "{found} for attempt {attempt} of {policy:?}");
        assert!(found <= policy.delay_limit());
        assert_eq!(found, retry_delay(policy, key), "a copy has another delay");
        if let Backoff::Exponential { .. } = policy.backoff {
            assert!(base >= before, "the backoff shrinks: {policy:?}");
            before = base;
        }
        let limit = u64::from(policy.delay_limit().get());
        for requested in [0, 1, 899, 900, 901, 43_200, u64::MAX] {
            let found = u64::from(retry_after_delay(requested, policy.delay_limit(), key).get());
            assert!(
                (requested.min(limit)..=limit.min(requested.saturating_add(requested / 10))).contains(&found)
            );
        }
    }
}

/// Returns the policy with a different jitter, unless the backoff is `uniform`, whose jitter is fixed.
fn with_jitter(policy: &Policy, other: Jitter) -> Policy {
    let mut policy = policy.clone();
    match &mut policy.backoff {
        Backoff::Uniform { .. } => {}
        Backoff::Exponential { jitter, .. } | Backoff::Fixed { jitter, .. } => *jitter = other,
        Backoff::Schedule { jitter, .. } => *jitter = other,
    }
    policy
}

fn backoff_jitter(backoff: &Backoff) -> Jitter {
    match backoff {
        Backoff::Uniform { .. } => Jitter::Full,
        Backoff::Exponential { jitter, .. } | Backoff::Fixed { jitter, .. } => *jitter,
        Backoff::Schedule { jitter, .. } => *jitter,
    }
}

/// Returns the delay before jitter is applied.
fn base_delay(backoff: &Backoff, attempt: u32) -> u16 {
    let index = attempt.max(1) - 1;
    match backoff {
        Backoff::Uniform { max_delay } => max_delay.get(),
        Backoff::Fixed { delay, .. } => delay.get(),
        Backoff::Schedule { delays, .. } => {
            let all: Vec<_> = delays.iter().collect();
            all.get(index as usize).unwrap_or(&all[all.len() - 1]).get()
        }
        Backoff::Exponential { initial_delay, rate, offset, max_delay, .. } => {
            let mut base = f64::from(initial_delay.get());
            for _ in 0..index {
                let next = base * rate;
                if next == base || base >= 43_200.0 {
                    break;
                }
                base = next;
            }
            let seconds = (base + f64::from(offset.get())).ceil();
            (0..max_delay.get()).find(|least| f64::from(*least) >= seconds).unwrap_or(max_delay.get())
        }
    }
}

/// Checks that matching any error type terminates: libFuzzer's timeout catches a glob that backtracks forever.
fn check_globs(globs: &Globs) {
    for name in ["", "HttpStatus.503", "Redrive", "*", "?", "\u{FFFD}", &"a".repeat(128)] {
        assert_eq!(globs.matches(name), globs.matches(name));
    }
}
