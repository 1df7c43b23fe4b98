//! `pattern` with metered matching. Most patterns read each character once; some compare it with each of their states.
//! Patterns with look-around or back-references may backtrack without limit: they are matched with a low limit first,
//! and with higher ones as long as the budget lasts.

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::Location;
use jsonschema::{Keyword, PatternOptions, Regex, ValidationError, Validator};
use serde_json::{Map, Value, json};

use crate::meter::of_bytes;
use crate::metered::{Metered, Reading};
use crate::options::Options;

/// Increasing limits of backtracking.
const BACKTRACKS: [usize; 7] = [4, 16, 128, 1024, 8192, 65_536, 1_000_000];
/// The limit of backtracking for a name in `patternProperties`, which is matched only once.
pub(crate) const NAME_BACKTRACKS: usize = 128;
/// States up to which a DFA costs nothing extra.
const STATES_FREE: u64 = 8;
/// The same for counted repetitions after `^`, enough for an e-mail address.
const ANCHORED_STATES_FREE: u64 = 500;
/// Bytes of a pattern whose literals cost nothing extra; typical patterns are shorter.
const LENGTH_FREE: usize = 256;
/// Groups whose positions can be copied with a state at no extra cost.
const GROUPS_FREE: u64 = 500;
/// Steps of a byte, and of each state, without a DFA.
const COST_OF_BYTE: u64 = 200;
const COST_OF_STATE: u64 = 40;

/// Replaces the validator's `pattern`.
pub(crate) fn keyword(options: Options<'_>) -> Options<'_> {
    options.with_keyword("pattern", pattern)
}

fn pattern<'a>(
    _: &'a Map<String, Value>,
    pattern: &'a Value,
    _: Location,
) -> Result<Box<dyn for<'i> Keyword<'i, Metered>>, ValidationError<'a>> {
    let schema = json!({ "pattern": pattern });
    let options = jsonschema::options_for::<Metered>;
    let text = pattern.as_str().unwrap_or_default();
    let per_byte = cost_of_byte(text);
    if let Ok(validator) = options().with_pattern_options(linear(per_byte)).build(&schema) {
        return Ok(Box::new(Pattern { attempts: vec![Attempt { validator, per_text: 0, per_byte }] }));
    }
    let repeats = text.contains(['*', '+', '{']);
    let attempts = BACKTRACKS.into_iter().map(|backtracks| {
        let engine = PatternOptions::fancy_regex().backtrack_limit(backtracks);
        let validator = options().with_pattern_options(engine).build(&schema)?;
        let (per_text, per_byte) = backtracking_costs(backtracks);
        Ok(Attempt { validator, per_text, per_byte: if repeats { per_byte } else { 0 } })
    });
    Ok(Box::new(Pattern { attempts: attempts.collect::<Result<_, ValidationError<'_>>>()? }))
}

/// A pattern with increasing limits of backtracking.
struct Pattern {
    attempts: Vec<Attempt>,
}

struct Attempt {
    validator: Validator<Metered>,
    per_text: u64,
    per_byte: u64,
}

impl<'i> Keyword<'i, Metered> for Pattern {
    fn validate(&self, node: Reading<'i>) -> Result<(), ValidationError<'i>> {
        let Some(text) = node.value.as_str() else {
            return Ok(());
        };
        for Attempt { validator, per_text, per_byte } in &self.attempts {
            if !node.spend(of_bytes(text.len()) + per_text + per_byte * text.len() as u64) {
                return Ok(());
            }
            match validator.validate(Reading { meter: None, ..node }) {
                Err(error) if is_unfinished(&error) => {}
                known => return known,
            }
        }
        // The last limit was too low, too: the check ends as one that took too long.
        node.spend(u64::MAX);
        Ok(())
    }

    fn is_valid(&self, node: Reading<'i>) -> bool {
        self.validate(node).is_ok()
    }
}

fn is_unfinished(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), ValidationErrorKind::BacktrackLimitExceeded { .. })
}

/// The steps of this many backtracks per text and per byte: each may read the whole text again.
pub(crate) fn backtracking_costs(backtracks: usize) -> (u64, u64) {
    (200 * backtracks as u64, 16 * backtracks as u64)
}

/// An engine without backtracking. It uses a DFA only if a byte costs nothing extra: building one for many states would
/// cost more than comparing each state.
pub(crate) fn linear(cost_of_byte: u64) -> PatternOptions<Regex> {
    let engine = PatternOptions::regex();
    if cost_of_byte > 0 { engine.dfa_size_limit(1) } else { engine }
}

/// The extra steps of a byte without backtracking: one for each state of each attempt, and an attempt may begin at each
/// character. Most states come from counted repetitions, such as the `{64}` of `[0-9a-f]{64}`. After `^` there is one
/// attempt, unless the pattern has unbounded repetitions or alternatives, and it is in few states at a time, unless
/// repetitions of many states overlap. A DFA cannot find word boundaries in Unicode.
pub(crate) fn cost_of_byte(pattern: &str) -> u64 {
    let begins_once =
        pattern.starts_with('^') && !pattern.contains(['|', '*', '+']) && !pattern.contains(",}");
    let has_word_boundary = [r"\b", r"\B"].iter().any(|boundary| pattern.contains(boundary));
    // Each further character may be a state, and each state carries the positions of all groups.
    let literals = pattern.len().saturating_sub(LENGTH_FREE) as u64;
    let groups = pattern.matches('(').count() as u64;
    let states = states(pattern).saturating_add(literals).saturating_mul(1 + groups / GROUPS_FREE);
    let is_once_in_few =
        begins_once && (states <= ANCHORED_STATES_FREE || has_one_simple_repetition(pattern));
    if !has_word_boundary && literals == 0 && (is_once_in_few || states <= STATES_FREE) {
        0
    } else {
        COST_OF_BYTE.saturating_add(states.saturating_mul(COST_OF_STATE))
    }
}

/// True with at most one counted repetition, and none of a group: an attempt is at one position of it at a time.
fn has_one_simple_repetition(pattern: &str) -> bool {
    let classes = [r"\p{", r"\P{"].iter().map(|class| pattern.matches(class).count()).sum::<usize>();
    pattern.matches('{').count() <= 1 + classes && !pattern.contains("){")
}

/// The approximate number of states: parts that match more than one character, or that are optional in a repeated
/// group.
fn states(pattern: &str) -> u64 {
    let places = ["[", "|", r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\p", r"\P", "."];
    let mut states = places.iter().map(|place| pattern.matches(place).count() as u64).sum::<u64>();
    if pattern.contains("){") {
        states += (pattern.matches('?').count() - pattern.matches("(?").count()) as u64;
    }
    for (at, _) in pattern.match_indices('{') {
        let counts = pattern[at + 1..].split('}').next().unwrap_or_default();
        let most = counts.rsplit(',').find_map(|count| count.parse::<u64>().ok()).unwrap_or(0);
        let is_of_a_group = pattern[..at].ends_with(')');
        states = if is_of_a_group {
            states.max(1).saturating_mul(most.max(1))
        } else {
            states.saturating_add(most)
        };
    }
    states
}
