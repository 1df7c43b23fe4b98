//! Formats JSON text without parsing its values: numbers, names, order and escapes remain unchanged.

use serde_json::value::RawValue;

use crate::terminal::escape::escape_json;

/// Maximum depth of indentation. Without a limit, the output for deeply nested brackets would grow quadratically.
const INDENTED_LEVELS: usize = 32;

/// The layout of formatted JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonLayout {
    /// On one line without spaces.
    Compact,
    /// Indented by two spaces.
    Pretty,
}

/// The values to replace with their type, as in `"<masked string>"`. Member names are never masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    Nothing,
    /// All values outside of the top-level member `metadata`.
    AllButMetadata,
    Everything,
}

impl Mask {
    /// Returns the mask for a body. Its `metadata` stays readable only if `can_show_metadata` is true.
    #[must_use]
    pub const fn for_body(can_show_metadata: bool) -> Self {
        if can_show_metadata { Self::AllButMetadata } else { Self::Everything }
    }
}

/// Formatted text. `is_cut` is true if it was truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormattedText {
    pub text: String,
    pub is_cut: bool,
}

/// Formats JSON in about `bytes_max` bytes. Returns `None` if `text` is not JSON. Unsafe characters in strings are
/// escaped, which does not change the values.
pub fn lay_out(text: &str, layout: JsonLayout, mask: Mask, bytes_max: usize) -> Option<FormattedText> {
    // `RawValue` does not recurse, so deeply nested JSON cannot overflow the stack.
    let text = serde_json::from_str::<&RawValue>(text).ok()?.get();
    let mut printer = Printer { layout, mask, out: String::new(), open: Vec::new(), in_metadata: false };
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if printer.out.len() > bytes_max {
            return Some(FormattedText { text: printer.out, is_cut: true });
        }
        let token = token_length(rest, first);
        printer.print_token(first, &rest[..token], rest[token..].trim_start());
        rest = rest[token..].trim_start();
    }
    Some(FormattedText { text: printer.out, is_cut: false })
}

/// Returns the length of the first token of `rest`. The JSON parser determines the end of a string, number or word.
fn token_length(rest: &str, first: char) -> usize {
    if matches!(first, '{' | '}' | '[' | ']' | ',' | ':') {
        return 1;
    }
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
    let value = values.next().and_then(Result::ok);
    // The text has already been validated as JSON, so a value exists.
    value.map_or(rest.len(), |value| value.get().len())
}

struct Printer {
    layout: JsonLayout,
    mask: Mask,
    out: String,
    open: Vec<char>,
    in_metadata: bool,
}

impl Printer {
    fn print_token(&mut self, first: char, token: &str, next: &str) {
        match first {
            '{' | '[' => {
                self.out.push(first);
                self.open.push(first);
                if !next.starts_with(['}', ']']) {
                    self.break_line();
                }
            }
            '}' | ']' => {
                self.open.pop();
                if !self.out.ends_with(['{', '[']) {
                    self.break_line();
                }
                self.out.push(first);
            }
            ',' => {
                self.out.push(',');
                self.break_line();
            }
            ':' => self.out.push_str(if self.layout == JsonLayout::Pretty { ": " } else { ":" }),
            '"' if next.starts_with(':') => {
                // Only the top level is checked, since `data` can have a member with the same name. The name is parsed
                // as JSON because it can contain escapes.
                if self.open.len() == 1 {
                    self.in_metadata =
                        serde_json::from_str::<String>(token).is_ok_and(|name| name == "metadata");
                }
                self.out.push_str(&escape_json(token));
            }
            _ if self.is_masked() => {
                self.out.push_str(match first {
                    '"' => "\"<masked string>\"",
                    't' | 'f' => "\"<masked boolean>\"",
                    'n' => "\"<masked null>\"",
                    _ => "\"<masked number>\"",
                });
            }
            _ => self.out.push_str(&escape_json(token)),
        }
    }

    fn is_masked(&self) -> bool {
        match self.mask {
            Mask::Nothing => false,
            Mask::AllButMetadata => !self.in_metadata,
            Mask::Everything => true,
        }
    }

    fn break_line(&mut self) {
        if self.layout == JsonLayout::Pretty {
            self.out.push('\n');
            self.out.push_str(&"  ".repeat(self.open.len().min(INDENTED_LEVELS)));
        }
    }
}

#[cfg(test)]
mod tests;
