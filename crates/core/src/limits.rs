//! What SQS allows. Numbers from "Amazon SQS message quotas" in the Amazon SQS Developer Guide.

use std::fmt;
use std::time::Duration;

/// A message may hold 1 MiB: its body and its attributes' names, types and values together.
pub const MESSAGE_BYTES_MAX: usize = 1_048_576;
/// The messages of one `SendMessageBatch` may hold 1 MiB together.
pub const BATCH_BYTES_MAX: usize = 1_048_576;
/// Entries of one batch request.
pub const BATCH_ENTRIES_MAX: usize = 10;
/// Message attributes of one message.
pub const ATTRIBUTES_MAX: usize = 10;

/// Whether SQS accepts this character in a body or in an attribute's text ("SendMessage", Amazon SQS API
/// Reference): `#x9 | #xA | #xD | #x20–#xD7FF | #xE000–#xFFFD | #x10000–#x10FFFF`.
#[must_use]
pub const fn is_legal(character: char) -> bool {
    matches!(character, '\u{9}' | '\u{A}' | '\u{D}' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// The first character of a text that is not legal, and its place. Looked at eight bytes at once, since most have nothing to
/// be looked at: what is illegal is a control character, or begins with 0xEF (U+FFFE and U+FFFF).
#[must_use]
pub fn first_illegal(text: &str) -> Option<(usize, char)> {
    let may_be_illegal = |byte: &u8| matches!(byte, 0..=8 | 11 | 12 | 14..=31 | 0xEF);
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let of_words = words.iter().enumerate().filter(|(_, word)| has_control_or_ef(u64::from_ne_bytes(**word)));
    let of_words = of_words.map(|(index, word)| (index * 8, &word[..]));
    of_words.chain([(words.len() * 8, rest)]).find_map(|(start, bytes)| {
        let places = bytes.iter().enumerate().filter(|(_, byte)| may_be_illegal(byte));
        // A control character and a first byte are where a character begins.
        places
            .filter_map(|(offset, _)| Some((start + offset, text[start + offset..].chars().next()?)))
            .find(|(_, character)| !is_legal(*character))
    })
}

/// Whether one of the eight bytes is below 0x20 or is 0xEF ("Determine if a word has a byte less than n", Bit Twiddling Hacks,
/// Sean Eron Anderson: it is, where the subtraction of n sets the highest bit of a byte that had none).
const fn has_control_or_ef(word: u64) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = EACH << 7;
    let other_than_ef = word ^ (EACH * 0xEF);
    let below_space = word.wrapping_sub(EACH * 0x20) & !word;
    let is_ef = other_than_ef.wrapping_sub(EACH) & !other_than_ef;
    (below_space | is_ef) & HIGHEST != 0
}

/// `DelaySeconds` of a sent message: 0..=900 seconds, by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DelaySeconds(u16);

impl DelaySeconds {
    /// No delay.
    pub const ZERO: Self = Self(0);
    /// 900 s, the longest that SQS knows.
    pub const MAX: Self = Self(900);

    /// `None` above 900.
    #[must_use]
    pub fn new(seconds: u64) -> Option<Self> {
        let seconds = u16::try_from(seconds).ok()?;
        (seconds <= Self::MAX.0).then_some(Self(seconds))
    }

    /// 900 where `seconds` is more.
    #[must_use]
    pub fn saturating(seconds: u64) -> Self {
        Self::new(seconds).unwrap_or(Self::MAX)
    }

    /// Whole seconds, 0..=900.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The same as a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }
}

impl fmt::Display for DelaySeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

/// The delay before a retry: 0..=43,200 seconds (12 hours), by type. What is longer than [`DelaySeconds`] takes hops, or
/// the message's own visibility.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RetryDelay(u16);

impl RetryDelay {
    /// None.
    pub const ZERO: Self = Self(0);
    /// The longest that one `DelaySeconds` can be: 900 s.
    pub const SHORT_MAX: Self = Self(DelaySeconds::MAX.0);
    /// 12 hours, the longest that SQS can hide a message ("Amazon SQS visibility timeout").
    pub const MAX: Self = Self(43_200);

    /// [`RetryDelay::SHORT_MAX`], as serde asks for a default.
    pub(crate) const fn short_max() -> Self {
        Self::SHORT_MAX
    }

    /// `None` above 43,200.
    #[must_use]
    pub fn new(seconds: u64) -> Option<Self> {
        let seconds = u16::try_from(seconds).ok()?;
        (seconds <= Self::MAX.0).then_some(Self(seconds))
    }

    /// 43,200 where `seconds` is more.
    #[must_use]
    pub fn saturating(seconds: u64) -> Self {
        Self::new(seconds).unwrap_or(Self::MAX)
    }

    /// Whole seconds, 0..=43,200.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl From<DelaySeconds> for RetryDelay {
    fn from(delay: DelaySeconds) -> Self {
        Self(delay.0)
    }
}

impl fmt::Display for RetryDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

/// A visibility timeout: 0..=43,200 seconds (12 hours), by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VisibilitySeconds(u16);

impl VisibilitySeconds {
    /// Visible at once.
    pub const ZERO: Self = Self(0);
    /// 12 hours.
    pub const MAX: Self = Self(43_200);

    /// `None` above 43,200.
    #[must_use]
    pub fn new(seconds: u64) -> Option<Self> {
        let seconds = u16::try_from(seconds).ok()?;
        (seconds <= Self::MAX.0).then_some(Self(seconds))
    }

    /// Whole seconds, 0..=43,200.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The same as a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }
}

impl From<RetryDelay> for VisibilitySeconds {
    /// Both reach 12 hours.
    fn from(delay: RetryDelay) -> Self {
        Self(delay.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARTS: &[&str] = &[
        "x", "é", "\n", "\u{80}", "\u{FF21}", "\u{E000}", "\u{FFFD}", "😀", "\u{FFFE}", "\u{FFFF}", "\u{1}",
    ];

    #[test]
    fn each_illegal_character_is_found_in_each_place() {
        let edges =
            ['\u{80}', '\u{D7FF}', '\u{E000}', '\u{FFFD}', '\u{FFFE}', '\u{FFFF}', '\u{10000}', '\u{10FFFF}'];
        for character in ('\0'..='\u{7F}').chain(edges) {
            for place in 0..17 {
                let text = format!("{}{character}{}", "x".repeat(place), "x".repeat(17 - place));
                let expected = (!is_legal(character)).then_some((place, character));
                assert_eq!(first_illegal(&text), expected, "{text:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_illegal_character_is_found_wherever_it_stands(
            parts in prop::collection::vec(
                (prop::sample::select(PARTS), 0..70_usize),
                0..8,
            ),
        ) {
            let text: String = parts.into_iter().map(|(part, times)| part.repeat(times)).collect();
            let expected = text.char_indices().find(|(_, character)| !is_legal(*character));
            prop_assert_eq!(first_illegal(&text), expected);
        }
    }

    #[test]
    fn delay_seconds_cannot_hold_901() {
        assert_eq!(DelaySeconds::new(900), Some(DelaySeconds::MAX));
        assert_eq!(DelaySeconds::new(901), None);
        assert_eq!(DelaySeconds::saturating(u64::MAX).get(), 900);
    }

    #[test]
    fn a_retry_delay_is_twelve_hours_at_most() {
        assert_eq!(RetryDelay::new(43_200), Some(RetryDelay::MAX));
        assert_eq!(RetryDelay::new(43_201), None);
        assert_eq!(RetryDelay::saturating(u64::MAX).get(), 43_200);
        assert_eq!(RetryDelay::SHORT_MAX.get(), 900);
    }

    #[test]
    fn legal_characters_are_those_of_the_sqs_reference() {
        for legal in ['\t', '\n', '\r', ' ', '\u{D7FF}', '\u{E000}', '\u{FFFD}', '\u{10000}', '\u{10FFFF}'] {
            assert!(is_legal(legal), "{legal:?}");
        }
        for illegal in ['\0', '\u{8}', '\u{B}', '\u{C}', '\u{1F}', '\u{FFFE}', '\u{FFFF}'] {
            assert!(!is_legal(illegal), "{illegal:?}");
        }
    }
}
