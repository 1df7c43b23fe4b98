//! SQS limits, from "Amazon SQS message quotas" in the Amazon SQS Developer Guide.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// Size limit of a message, 1 MiB: its body plus the names, types and values of its attributes.
pub const MESSAGE_BYTES_MAX: usize = 1_048_576;
/// Limit on the total size of the messages in one `SendMessageBatch`, 1 MiB.
pub const BATCH_BYTES_MAX: usize = 1_048_576;
/// Maximum number of entries in a batch request.
pub const BATCH_ENTRIES_MAX: usize = 10;
/// Maximum number of attributes on a message.
pub const ATTRIBUTES_MAX: usize = 10;

/// True if SQS accepts this character in a body or in a text attribute ("SendMessage", Amazon SQS API Reference):
/// `#x9 | #xA | #xD | #x20–#xD7FF | #xE000–#xFFFD | #x10000–#x10FFFF`.
#[must_use]
pub const fn is_legal(character: char) -> bool {
    matches!(character, '\u{9}' | '\u{A}' | '\u{D}' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Finds the first illegal character in a string, with its byte offset.
#[must_use]
pub fn find_illegal_character(text: &str) -> Option<(usize, char)> {
    // Most strings have no byte that could start an illegal character (U+FFFE and U+FFFF start with 0xEF). The check
    // has no branches, so that the compiler vectorizes the loop.
    let may_be_illegal = |byte| byte < b' ' || byte == 0xEF;
    if !text.bytes().fold(false, |found, byte| found | may_be_illegal(byte)) {
        return None;
    }
    text.char_indices().find(|(_, character)| !is_legal(*character))
}

/// Whole seconds in `0..=MAX`, enforced by the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Seconds<const MAX: u16>(u16);

/// The `DelaySeconds` of a sent message.
pub type DelaySeconds = Seconds<900>;
/// The delay before a retry: up to 12 hours, the longest time for which SQS can hide a message ("Amazon SQS visibility
/// timeout"). A delay that exceeds [`DelaySeconds`] requires hops or a visibility timeout for the message.
pub type RetryDelay = Seconds<43_200>;
/// A visibility timeout: up to 12 hours after the receive ("Amazon SQS visibility timeout").
pub type VisibilitySeconds = Seconds<43_200>;

impl<const MAX: u16> Seconds<MAX> {
    /// No delay.
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(MAX);

    /// Creates the value; `None` if `seconds` exceeds `MAX`.
    #[must_use]
    pub fn new(seconds: u64) -> Option<Self> {
        u16::try_from(seconds).ok().filter(|seconds| *seconds <= MAX).map(Self)
    }

    /// Caps the number of seconds at `MAX`.
    #[must_use]
    pub fn saturating(seconds: u64) -> Self {
        Self::new(seconds).unwrap_or(Self::MAX)
    }

    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }
}

impl RetryDelay {
    /// The longest delay that `DelaySeconds` allows.
    pub const SHORT_MAX: Self = Self(DelaySeconds::MAX.0);

    /// Returns [`RetryDelay::SHORT_MAX`], as a function for serde defaults.
    pub(crate) const fn short_max() -> Self {
        Self::SHORT_MAX
    }
}

impl From<DelaySeconds> for RetryDelay {
    fn from(delay: DelaySeconds) -> Self {
        Self(delay.0)
    }
}

impl<const MAX: u16> fmt::Display for Seconds<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
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
    fn every_illegal_character_is_found_at_every_offset() {
        let edges =
            ['\u{80}', '\u{D7FF}', '\u{E000}', '\u{FFFD}', '\u{FFFE}', '\u{FFFF}', '\u{10000}', '\u{10FFFF}'];
        for character in ('\0'..='\u{7F}').chain(edges) {
            for place in 0..17 {
                let text = format!("{}{character}{}", "x".repeat(place), "x".repeat(17 - place));
                let expected = (!is_legal(character)).then_some((place, character));
                assert_eq!(find_illegal_character(&text), expected, "{text:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_illegal_character_is_found_in_any_string(
            parts in prop::collection::vec(
                (prop::sample::select(PARTS), 0..70_usize),
                0..8,
            ),
        ) {
            let text: String = parts.into_iter().map(|(part, times)| part.repeat(times)).collect();
            let expected = text.char_indices().find(|(_, character)| !is_legal(*character));
            prop_assert_eq!(find_illegal_character(&text), expected);
        }
    }

    #[test]
    fn delay_seconds_cannot_hold_901() {
        assert_eq!(DelaySeconds::new(900), Some(DelaySeconds::MAX));
        assert_eq!(DelaySeconds::new(901), None);
        assert_eq!(DelaySeconds::saturating(u64::MAX).get(), 900);
    }

    #[test]
    fn a_retry_delay_is_at_most_twelve_hours() {
        assert_eq!(RetryDelay::new(43_200), Some(RetryDelay::MAX));
        assert_eq!(RetryDelay::new(43_201), None);
        assert_eq!(RetryDelay::saturating(u64::MAX).get(), 43_200);
        assert_eq!(RetryDelay::SHORT_MAX.get(), 900);
    }

    #[test]
    fn legal_characters_match_the_sqs_reference() {
        for legal in ['\t', '\n', '\r', ' ', '\u{D7FF}', '\u{E000}', '\u{FFFD}', '\u{10000}', '\u{10FFFF}'] {
            assert!(is_legal(legal), "{legal:?}");
        }
        for illegal in ['\0', '\u{8}', '\u{B}', '\u{C}', '\u{1F}', '\u{FFFE}', '\u{FFFF}'] {
            assert!(!is_legal(illegal), "{illegal:?}");
        }
    }
}
