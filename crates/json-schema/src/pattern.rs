//! `pattern`, by what its matching takes. Most patterns look at each character once. Some look at it with each of their
//! states; and those with look-around or back-references may step back any number of times: such a text is matched with
//! few steps back first, and with more as long as the meter has them.

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::Location;
use jsonschema::{Keyword, PatternOptions, Regex, ValidationError, Validator};
use serde_json::{Map, Value, json};

use crate::meter::of_bytes;
use crate::metered::{Metered, Reading};
use crate::schema::Options;

/// Steps back that a text may take, one after the other.
const STEPS_BACK: [usize; 7] = [4, 16, 128, 1024, 8192, 65_536, 1_000_000];
/// Steps back for a name that `patternProperties` matches in this way; nobody can try that twice.
pub(crate) const STEPS_BACK_OF_NAME: usize = 128;
/// States of which an automaton can know all combinations.
const STATES_FREE: u64 = 8;
/// States of the counted repetitions after a `^`: those of an e-mail address are free.
const STATES_FREE_OF_ONE_ATTEMPT: u64 = 500;
/// Bytes of a pattern whose literals are free: people's are shorter, or have more of what is counted.
const LENGTH_FREE: usize = 256;
/// Groups whose places a look at a state copies on the side.
const GROUPS_FREE: u64 = 500;
/// What a byte takes if it does not, and a look at a state.
const OF_BYTE: u64 = 200;
const OF_STATE: u64 = 40;

/// Has `pattern` checked here.
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
    let of_byte = of_byte(text);
    if let Ok(validator) = options().with_pattern_options(linear(of_byte)).build(&schema) {
        return Ok(Box::new(Pattern { attempts: vec![Attempt { validator, of_text: 0, of_byte }] }));
    }
    let repeats = text.contains(['*', '+', '{']);
    let attempts = STEPS_BACK.into_iter().map(|steps_back| {
        let engine = PatternOptions::fancy_regex().backtrack_limit(steps_back);
        let validator = options().with_pattern_options(engine).build(&schema)?;
        let (of_text, of_byte) = of_steps_back(steps_back);
        Ok(Attempt { validator, of_text, of_byte: if repeats { of_byte } else { 0 } })
    });
    Ok(Box::new(Pattern { attempts: attempts.collect::<Result<_, ValidationError<'_>>>()? }))
}

/// The same pattern with more and more steps back.
struct Pattern {
    attempts: Vec<Attempt>,
}

struct Attempt {
    validator: Validator<Metered>,
    of_text: u64,
    of_byte: u64,
}

impl<'i> Keyword<'i, Metered> for Pattern {
    fn validate(&self, node: Reading<'i>) -> Result<(), ValidationError<'i>> {
        let Some(text) = node.value.as_str() else {
            return Ok(());
        };
        for Attempt { validator, of_text, of_byte } in &self.attempts {
            if !node.spend(of_bytes(text.len()) + of_text + of_byte * text.len() as u64) {
                return Ok(());
            }
            match validator.validate(Reading { meter: None, ..node }) {
                Err(error) if is_unfinished(&error) => {}
                known => return known,
            }
        }
        // Not even the last attempt was enough: the check ends here as one that took too long.
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

/// What so many steps back take of a text and of each of its bytes: after a step all of the text may be looked at
/// again.
pub(crate) fn of_steps_back(steps: usize) -> (u64, u64) {
    (200 * steps as u64, 16 * steps as u64)
}

/// The engine for a pattern whose bytes take so much. To learn the combinations of many states would take more than to
/// look at each.
pub(crate) fn linear(of_byte: u64) -> PatternOptions<Regex> {
    let engine = PatternOptions::regex();
    if of_byte > 0 { engine.dfa_size_limit(1) } else { engine }
}

/// What a byte takes in addition to being read, where no engine has to step back: a look at each state that an attempt
/// may be in, and one may begin at each character. Counted repetitions have most of them, such as the `{64}` of
/// `[0-9a-f]{64}`. After `^` there is one attempt, unless the pattern has endless repetitions or alternatives; it is in
/// few states at a time, unless repetitions of many states overlap. If a word ends in Unicode an automaton cannot know.
pub(crate) fn of_byte(pattern: &str) -> u64 {
    let begins_once =
        pattern.starts_with('^') && !pattern.contains(['|', '*', '+']) && !pattern.contains(",}");
    let has_word_boundary = [r"\b", r"\B"].iter().any(|boundary| pattern.contains(boundary));
    // Beyond that each character of it may be a state, and with each state go the places of all groups.
    let literals = pattern.len().saturating_sub(LENGTH_FREE) as u64;
    let groups = pattern.matches('(').count() as u64;
    let states = states(pattern).saturating_add(literals).saturating_mul(1 + groups / GROUPS_FREE);
    let is_once_in_few =
        begins_once && (states <= STATES_FREE_OF_ONE_ATTEMPT || has_one_simple_repetition(pattern));
    if !has_word_boundary && literals == 0 && (is_once_in_few || states <= STATES_FREE) {
        0
    } else {
        OF_BYTE.saturating_add(states.saturating_mul(OF_STATE))
    }
}

/// At most one counted repetition, and of no group: an attempt is at one place of it at a time.
fn has_one_simple_repetition(pattern: &str) -> bool {
    let classes = [r"\p{", r"\P{"].iter().map(|class| pattern.matches(class).count()).sum::<usize>();
    pattern.matches('{').count() <= 1 + classes && !pattern.contains("){")
}

/// About as many as there are places in it that match more than one character, or may match none in a repeated group.
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
