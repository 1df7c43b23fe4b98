//! Escapes untrusted text. Every view shows such text through this module: characters that move a cursor, change the
//! direction of text or are invisible are written as `\u{200b}`, and only the first few of a pile of combining marks,
//! which would cover other lines, are shown: `[+296 marks]`. Emoji and the world's scripts stay as they are.

use std::fmt::Write as _;

use icu_properties::props::{
    CanonicalCombiningClass, DefaultIgnorableCodePoint, Emoji, EmojiModifier, ExtendedPictographic,
    GeneralCategory, GeneralCategoryGroup, Ideographic, JoiningType,
};
use icu_properties::{CodePointMapData, CodePointSetData};

use crate::terminal::units::format_count;

pub use redeliver_core::truncate::shorten_text;

/// Combining marks in a row that are shown: a Hebrew letter with its points and accents, or a stack of Tibetan, has four.
const MARKS_MAX: usize = 4;

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';
/// A digit becomes a key of a telephone with it, behind the selector of emoji.
const KEYCAP: char = '\u{20e3}';

/// Escapes text for one line.
pub fn escape_line(text: &str) -> String {
    escape_except(text, |_| false)
}

/// The same with line breaks and tabs left as they are.
pub fn escape_lines(text: &str) -> String {
    escape_except(text, |character| matches!(character, '\n' | '\t'))
}

/// Escapes JSON text without changing its meaning: characters that [`escape_line`] writes out or leaves out become JSON
/// escapes such as `\u200b`.
pub fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for (character, shown) in classify_characters(json) {
        // Line breaks and tabs stand between values only: JSON has none in a string.
        if shown == CharacterDisplay::AsItIs || matches!(character, '\n' | '\r' | '\t') {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _infallible = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

fn escape_except(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut clipped = 0;
    for (character, shown) in classify_characters(text) {
        if shown == CharacterDisplay::Clipped {
            clipped += 1;
            continue;
        }
        push_clipped(&mut escaped, &mut clipped);
        match character {
            _ if shown == CharacterDisplay::AsItIs || keep(character) => escaped.push(character),
            '\n' | '\r' | '\t' => escaped.extend(character.escape_default()),
            _ => escaped.extend(character.escape_unicode()),
        }
    }
    push_clipped(&mut escaped, &mut clipped);
    escaped
}

fn push_clipped(escaped: &mut String, clipped: &mut u64) {
    if *clipped > 0 {
        let _infallible = write!(escaped, "[+{}]", format_count(*clipped, "mark"));
        *clipped = 0;
    }
}

/// The way in which a character is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterDisplay {
    AsItIs,
    Escaped,
    /// It is one combining mark too many.
    Clipped,
}

/// Each character of a text with how it is shown.
fn classify_characters(text: &str) -> impl Iterator<Item = (char, CharacterDisplay)> + '_ {
    let mut before = PrecedingCharacters::default();
    let mut rest = text.chars();
    std::iter::from_fn(move || {
        let character = rest.next()?;
        Some((character, before.classify(character, rest.clone().next())))
    })
}

/// The relevant characters before the current one.
#[derive(Default)]
struct PrecedingCharacters {
    /// The last character, if it is shown as it is.
    last: Option<char>,
    /// The last character that is neither a mark nor a joiner.
    base: Option<char>,
    /// Marks since then.
    marks: usize,
}

impl PrecedingCharacters {
    fn classify(&mut self, character: char, next: Option<char>) -> CharacterDisplay {
        if (' '..='~').contains(&character) {
            return self.start_base(character);
        }
        let category = CodePointMapData::<GeneralCategory>::new().get(character);
        let is_mark = GeneralCategoryGroup::Mark.contains(category);
        if is_hidden(character, category) {
            if !self.has_visible_effect(character, next) {
                *self = Self::default();
                return CharacterDisplay::Escaped;
            }
        } else if !is_mark {
            return self.start_base(character);
        }
        self.marks += usize::from(is_mark);
        let is_shown = self.marks <= MARKS_MAX;
        self.last = is_shown.then_some(character);
        if is_shown { CharacterDisplay::AsItIs } else { CharacterDisplay::Clipped }
    }

    fn start_base(&mut self, base: char) -> CharacterDisplay {
        *self = Self { last: Some(base), base: Some(base), marks: 0 };
        CharacterDisplay::AsItIs
    }

    /// True if an invisible character is where a script or an emoji needs it, and so has a visible effect.
    fn has_visible_effect(&self, character: char, next: Option<char>) -> bool {
        let joining = |of: Option<char>| of.map(|of| CodePointMapData::<JoiningType>::new().get(of));
        match character {
            // The contextual rules of RFC 5892, appendices A.1 and A.2, with a letter behind; and sequences of emoji.
            ZERO_WIDTH_NON_JOINER => {
                self.is_behind_a_virama(next)
                    || matches!(joining(self.base), Some(JoiningType::DualJoining | JoiningType::LeftJoining))
                        && matches!(joining(next), Some(JoiningType::DualJoining | JoiningType::RightJoining))
            }
            ZERO_WIDTH_JOINER => {
                self.is_behind_a_virama(next)
                    || self.base.is_some_and(|base| is_pictographic(base) || is_skin_tone(base))
                        && next.is_some_and(is_pictographic)
            }
            // Selects the look of the character before it.
            '\u{fe0e}' | '\u{fe0f}' => match self.last {
                Some(base) if base.is_ascii() => is_emoji(base) && next == Some(KEYCAP),
                Some(base) => self.marks == 0 && is_emoji(base),
                None => false,
            },
            '\u{fe00}'..='\u{fe0d}' | '\u{e0100}'..='\u{e01ef}' => {
                self.marks == 0 && self.last.is_some_and(is_ideographic)
            }
            _ => false,
        }
    }

    fn is_behind_a_virama(&self, next: Option<char>) -> bool {
        let class = |of| CodePointMapData::<CanonicalCombiningClass>::new().get(of);
        self.last.is_some_and(|last| class(last) == CanonicalCombiningClass::Virama)
            && next.is_some_and(char::is_alphabetic)
    }
}

/// Controls, formats, separators of lines, and all else that Unicode says has no look of its own, such as Hangul fillers.
fn is_hidden(character: char, category: GeneralCategory) -> bool {
    matches!(
        category,
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    ) || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
}

fn is_pictographic(character: char) -> bool {
    CodePointSetData::new::<ExtendedPictographic>().contains(character)
}

fn is_skin_tone(character: char) -> bool {
    CodePointSetData::new::<EmojiModifier>().contains(character)
}

fn is_emoji(character: char) -> bool {
    CodePointSetData::new::<Emoji>().contains(character)
}

fn is_ideographic(character: char) -> bool {
    CodePointSetData::new::<Ideographic>().contains(character)
}

#[cfg(test)]
mod tests;
