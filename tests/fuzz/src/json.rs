//! A second, slow JSON parser, written from RFC 8259, which reports the positions of an object's members and decodes
//! strings.
//!
//! It shares no code with the product, which uses `serde_json`, so neither can hide the other's mistake.

use std::ops::Range;

/// Objects and arrays inside one another, as DESIGN §2 allows them.
const NESTING_MAX: usize = 128;

/// A parsed JSON text; all positions are offsets into the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its position without surrounding white space.
    pub at: Range<usize>,
    /// Its value.
    pub kind: Kind,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its members, in order.
    Object(Vec<Member>),
    /// Its items, in order.
    Array(Vec<Node>),
    /// Its UTF-16 code units, which may be lone surrogates.
    String(Vec<u16>),
    /// A number's text.
    Number,
    /// `true`, `false`, `null`.
    Word,
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name's UTF-16 code units.
    pub name: Vec<u16>,
    /// From after `{` or `,` to before the next `,` or `}`.
    pub segment: Range<usize>,
    /// Its value.
    pub value: Node,
}

/// The reason to refuse a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Not JSON.
    Malformed,
    /// Deeper than 128; the rest was not checked.
    TooDeep,
}

impl Node {
    /// The members of an object.
    #[must_use]
    pub fn members(&self) -> Option<&[Member]> {
        if let Kind::Object(members) = &self.kind { Some(members) } else { None }
    }

    /// The only member of that name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        let mut found = self.members()?.iter().filter(|member| member.is(name));
        found.next().filter(|_| found.next().is_none())
    }

    /// The text of a string without lone surrogates.
    #[must_use]
    pub fn string(&self) -> Option<String> {
        if let Kind::String(units) = &self.kind { String::from_utf16(units).ok() } else { None }
    }

    /// True if two members have the same unescaped name.
    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        let members = self.members().unwrap_or_default();
        let mut names: Vec<_> = members.iter().map(|member| &member.name).collect();
        names.sort();
        names.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl Member {
    /// True if this is its name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.iter().copied().eq(name.encode_utf16())
    }
}

/// Parses a text.
///
/// # Errors
/// The reason to refuse it.
pub fn read(text: &str) -> Result<Node, Wrong> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.space();
    let node = reader.value()?;
    reader.space();
    if reader.at == text.len() { Ok(node) } else { Err(Wrong::Malformed) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, byte: u8) -> Result<(), Wrong> {
        if self.take(byte) { Ok(()) } else { Err(Wrong::Malformed) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Node, Wrong> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{' | b'[') if self.depth == NESTING_MAX => return Err(Wrong::TooDeep),
            Some(b'{') => self.object()?,
            Some(b'[') => self.array()?,
            Some(b'"') => Kind::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Node { at: start..self.at, kind })
    }

    fn object(&mut self) -> Result<Kind, Wrong> {
        let mut members = Vec::new();
        self.expect(b'{')?;
        self.depth += 1;
        let mut start = self.at;
        self.space();
        while !self.take(b'}') {
            if !members.is_empty() {
                self.expect(b',')?;
                start = self.at;
                self.space();
            }
            let name = self.string()?;
            self.space();
            self.expect(b':')?;
            self.space();
            let value = self.value()?;
            self.space();
            members.push(Member { name, segment: start..self.at, value });
        }
        self.depth -= 1;
        Ok(Kind::Object(members))
    }

    fn array(&mut self) -> Result<Kind, Wrong> {
        let mut items = Vec::new();
        self.expect(b'[')?;
        self.depth += 1;
        self.space();
        while !self.take(b']') {
            if !items.is_empty() {
                self.expect(b',')?;
                self.space();
            }
            items.push(self.value()?);
            self.space();
        }
        self.depth -= 1;
        Ok(Kind::Array(items))
    }

    fn string(&mut self) -> Result<Vec<u16>, Wrong> {
        self.expect(b'"')?;
        let mut units = Vec::new();
        loop {
            let character = self.text[self.at..].chars().next().ok_or(Wrong::Malformed)?;
            self.at += character.len_utf8();
            match character {
                '"' => return Ok(units),
                '\\' => units.push(self.escape()?),
                '\0'..'\u{20}' => return Err(Wrong::Malformed),
                _ => units.extend_from_slice(character.encode_utf16(&mut [0; 2])),
            }
        }
    }

    fn escape(&mut self) -> Result<u16, Wrong> {
        let byte = self.peek().ok_or(Wrong::Malformed)?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => u16::from(byte),
            b'b' => 8,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'u' => {
                let digits = self.text.as_bytes().get(self.at..self.at + 4).ok_or(Wrong::Malformed)?;
                self.at += 4;
                digits.iter().try_fold(0, |unit, digit| {
                    let digit = char::from(*digit).to_digit(16).ok_or(Wrong::Malformed)?;
                    Ok(unit << 4 | u16::try_from(digit).map_err(|_| Wrong::Malformed)?)
                })?
            }
            _ => return Err(Wrong::Malformed),
        })
    }

    fn number(&mut self) -> Result<Kind, Wrong> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _signed = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(Kind::Number)
    }

    fn digits(&mut self) -> Result<(), Wrong> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Wrong::Malformed) }
    }

    fn word(&mut self) -> Result<Kind, Wrong> {
        let rest = &self.text[self.at..];
        let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word));
        self.at += word.ok_or(Wrong::Malformed)?.len();
        Ok(Kind::Word)
    }
}
