//! A second, slow JSON parser, written from RFC 8259. It reports the positions of an object's members and decodes
//! strings.
//!
//! It shares no code with the product, which uses `serde_json`, so neither can hide the other's mistake.

use std::ops::Range;

/// The maximum nesting of objects and arrays in a message.
const NESTING_MAX: usize = 128;

/// A parsed JSON document; all positions are offsets into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonNode {
    /// The position, without surrounding white space.
    pub at: Range<usize>,
    /// The value.
    pub kind: NodeKind,
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// The members, in order.
    Object(Vec<JsonMember>),
    /// The items, in order.
    Array(Vec<JsonNode>),
    /// The UTF-16 code units, which can be lone surrogates.
    String(Vec<u16>),
    /// A number; its digits are at [`JsonNode::at`].
    Number,
    /// `true`, `false` or `null`.
    Word,
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonMember {
    /// The name's UTF-16 code units.
    pub name: Vec<u16>,
    /// The position of the part between `{` or `,` and the next `,` or `}`.
    pub segment: Range<usize>,
    /// The value.
    pub value: JsonNode,
}

/// The reason for refusing a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonRefusal {
    /// Not JSON.
    Malformed,
    /// Nested deeper than 128 levels; the rest was not checked.
    TooDeep,
}

impl JsonNode {
    /// Returns the members of an object, or `None` for another value.
    #[must_use]
    pub fn members(&self) -> Option<&[JsonMember]> {
        if let NodeKind::Object(members) = &self.kind { Some(members) } else { None }
    }

    /// Returns the member with this name, if there is exactly one.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&JsonMember> {
        let mut found = self.members()?.iter().filter(|member| member.has_name(name));
        found.next().filter(|_| found.next().is_none())
    }

    /// Returns the decoded string, unless it has lone surrogates.
    #[must_use]
    pub fn string(&self) -> Option<String> {
        if let NodeKind::String(units) = &self.kind { String::from_utf16(units).ok() } else { None }
    }

    /// Returns true if two members have the same unescaped name.
    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        let members = self.members().unwrap_or_default();
        let mut names: Vec<_> = members.iter().map(|member| &member.name).collect();
        names.sort();
        names.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl JsonMember {
    /// Returns true if the member has this name.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        self.name.iter().copied().eq(name.encode_utf16())
    }
}

/// Parses a JSON document.
///
/// # Errors
/// The reason for refusing the document.
pub fn parse_json(text: &str) -> Result<JsonNode, JsonRefusal> {
    let mut reader = JsonReader { text, at: 0, depth: 0 };
    reader.skip_space();
    let node = reader.parse_value()?;
    reader.skip_space();
    if reader.at == text.len() { Ok(node) } else { Err(JsonRefusal::Malformed) }
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl JsonReader<'_> {
    fn peek_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take_byte(&mut self, byte: u8) -> bool {
        let taken = self.peek_byte() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn expect_byte(&mut self, byte: u8) -> Result<(), JsonRefusal> {
        if self.take_byte(byte) { Ok(()) } else { Err(JsonRefusal::Malformed) }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek_byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn parse_value(&mut self) -> Result<JsonNode, JsonRefusal> {
        let start = self.at;
        let kind = match self.peek_byte() {
            Some(b'{' | b'[') if self.depth == NESTING_MAX => return Err(JsonRefusal::TooDeep),
            Some(b'{') => self.parse_object()?,
            Some(b'[') => self.parse_array()?,
            Some(b'"') => NodeKind::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.parse_number()?,
            _ => self.parse_word()?,
        };
        Ok(JsonNode { at: start..self.at, kind })
    }

    fn parse_object(&mut self) -> Result<NodeKind, JsonRefusal> {
        let mut members = Vec::new();
        self.expect_byte(b'{')?;
        self.depth += 1;
        let mut start = self.at;
        self.skip_space();
        while !self.take_byte(b'}') {
            if !members.is_empty() {
                self.expect_byte(b',')?;
                start = self.at;
                self.skip_space();
            }
            let name = self.string()?;
            self.skip_space();
            self.expect_byte(b':')?;
            self.skip_space();
            let value = self.parse_value()?;
            self.skip_space();
            members.push(JsonMember { name, segment: start..self.at, value });
        }
        self.depth -= 1;
        Ok(NodeKind::Object(members))
    }

    fn parse_array(&mut self) -> Result<NodeKind, JsonRefusal> {
        let mut items = Vec::new();
        self.expect_byte(b'[')?;
        self.depth += 1;
        self.skip_space();
        while !self.take_byte(b']') {
            if !items.is_empty() {
                self.expect_byte(b',')?;
                self.skip_space();
            }
            items.push(self.parse_value()?);
            self.skip_space();
        }
        self.depth -= 1;
        Ok(NodeKind::Array(items))
    }

    fn string(&mut self) -> Result<Vec<u16>, JsonRefusal> {
        self.expect_byte(b'"')?;
        let mut units = Vec::new();
        loop {
            let character = self.text[self.at..].chars().next().ok_or(JsonRefusal::Malformed)?;
            self.at += character.len_utf8();
            match character {
                '"' => return Ok(units),
                '\\' => units.push(self.parse_escape()?),
                '\0'..'\u{20}' => return Err(JsonRefusal::Malformed),
                _ => units.extend_from_slice(character.encode_utf16(&mut [0; 2])),
            }
        }
    }

    fn parse_escape(&mut self) -> Result<u16, JsonRefusal> {
        let byte = self.peek_byte().ok_or(JsonRefusal::Malformed)?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => u16::from(byte),
            b'b' => 8,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'u' => {
                let digits = self.text.as_bytes().get(self.at..self.at + 4).ok_or(JsonRefusal::Malformed)?;
                self.at += 4;
                digits.iter().try_fold(0, |unit, digit| {
                    let digit = char::from(*digit).to_digit(16).ok_or(JsonRefusal::Malformed)?;
                    Ok(unit << 4 | u16::try_from(digit).map_err(|_| JsonRefusal::Malformed)?)
                })?
            }
            _ => return Err(JsonRefusal::Malformed),
        })
    }

    fn parse_number(&mut self) -> Result<NodeKind, JsonRefusal> {
        self.take_byte(b'-');
        if !self.take_byte(b'0') {
            self.skip_digits()?;
        }
        if self.take_byte(b'.') {
            self.skip_digits()?;
        }
        if self.take_byte(b'e') || self.take_byte(b'E') {
            let _signed = self.take_byte(b'+') || self.take_byte(b'-');
            self.skip_digits()?;
        }
        Ok(NodeKind::Number)
    }

    fn skip_digits(&mut self) -> Result<(), JsonRefusal> {
        let start = self.at;
        while self.peek_byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(JsonRefusal::Malformed) }
    }

    fn parse_word(&mut self) -> Result<NodeKind, JsonRefusal> {
        let rest = &self.text[self.at..];
        let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word));
        self.at += word.ok_or(JsonRefusal::Malformed)?.len();
        Ok(NodeKind::Word)
    }
}
