//! Escapes untrusted text; every view displays such text through this module. Characters that move the cursor, change
//! the text direction or are invisible are written as escapes such as `\u{200b}`. Stacked combining marks would cover
//! other lines, so only the first few are shown, followed by the number omitted: `[+296 marks]`. Emoji and the world's
//! scripts remain unchanged.

use std::fmt::Write as _;

use icu_properties::props::{
    CanonicalCombiningClass, DefaultIgnorableCodePoint, Emoji, EmojiModifier, ExtendedPictographic,
    GeneralCategory, GeneralCategoryGroup, Ideographic, JoiningType,
};
use icu_properties::{CodePointMapData, CodePointSetData};

use crate::terminal::units::format_count;

pub use redeliver_core::truncate::shorten_text;

/// Maximum number of consecutive combining marks shown: a Hebrew letter with points and accents, or a Tibetan stack,
/// has four.
const MARKS_MAX: usize = 4;

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';
/// Turns a digit followed by the emoji variation selector into a keycap emoji.
const KEYCAP: char = '\u{20e3}';

/// Escapes text for one line.
pub fn escape_line(text: &str) -> String {
    escape_except(text, |_| false)
}

/// Escapes text, preserving line breaks and tabs.
pub fn escape_lines(text: &str) -> String {
    escape_except(text, |character| matches!(character, '\n' | '\t'))
}

/// Escapes JSON text without changing its meaning: characters that [`escape_line`] escapes or omits become JSON escapes
/// such as `\u200b`.
pub fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for (character, shown) in classify_characters(json) {
        // Line breaks and tabs appear only between values: JSON does not allow them in a string.
        if shown == CharacterDisplay::Unchanged || matches!(character, '\n' | '\r' | '\t') {
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
            _ if shown == CharacterDisplay::Unchanged || keep(character) => escaped.push(character),
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

/// The way a character is displayed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterDisplay {
    Unchanged,
    Escaped,
    /// A combining mark beyond the limit.
    Clipped,
}

/// Returns each character in a text, and how it is displayed.
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
    /// The last character, if it is displayed unchanged.
    last: Option<char>,
    /// The last character that is neither a mark nor a joiner.
    base: Option<char>,
    /// The number of marks since then.
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
        if is_shown { CharacterDisplay::Unchanged } else { CharacterDisplay::Clipped }
    }

    fn start_base(&mut self, base: char) -> CharacterDisplay {
        *self = Self { last: Some(base), base: Some(base), marks: 0 };
        CharacterDisplay::Unchanged
    }

    /// Returns true if an invisible character is required by a script or an emoji, and therefore has a visible effect.
    fn has_visible_effect(&self, character: char, next: Option<char>) -> bool {
        let joining = |neighbor: Option<char>| {
            neighbor.map(|neighbor| CodePointMapData::<JoiningType>::new().get(neighbor))
        };
        match character {
            // Joiners are allowed in emoji sequences, and before a letter where the contextual rules in RFC 5892,
            // appendices A.1 and A.2, are met.
            ZERO_WIDTH_NON_JOINER => {
                self.follows_virama(next)
                    || matches!(joining(self.base), Some(JoiningType::DualJoining | JoiningType::LeftJoining))
                        && matches!(joining(next), Some(JoiningType::DualJoining | JoiningType::RightJoining))
            }
            ZERO_WIDTH_JOINER => {
                self.follows_virama(next)
                    || self.base.is_some_and(|base| is_pictographic(base) || is_skin_tone(base))
                        && next.is_some_and(is_pictographic)
            }
            // Selects the presentation of the preceding character.
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

    fn follows_virama(&self, next: Option<char>) -> bool {
        let class = |character| CodePointMapData::<CanonicalCombiningClass>::new().get(character);
        self.last.is_some_and(|last| class(last) == CanonicalCombiningClass::Virama)
            && next.is_some_and(char::is_alphabetic)
    }
}

/// Returns true for controls, format characters, line separators, and everything else that is invisible according to
/// Unicode, such as Hangul fillers.
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
