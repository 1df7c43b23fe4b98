//! Protocol Buffers, as far as OTLP's spans need them ("Encoding", Protocol Buffers Documentation).

/// Writes the fields of a message.
#[derive(Debug)]
pub(super) struct Encoder(Vec<u8>);

/// A message within another one whose size is not known yet.
#[derive(Clone, Copy, Debug)]
#[must_use = "a message without an end has no length"]
pub(super) struct Begun(usize);

/// Kinds of fields.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const WITH_LENGTH: u64 = 2;
const FIXED32: u64 = 5;

const fn tag(field: u64, kind: u64) -> u64 {
    field << 3 | kind
}

/// The size of a field below 16 with this number: seven bits a byte, and the tag.
pub(super) fn number_bytes(number: u64) -> u64 {
    1 + u64::from((u64::BITS - (number | 1).leading_zeros()).div_ceil(7))
}

/// The size of a field below 16 whose content has this size.
pub(super) fn content_bytes(content: u64) -> u64 {
    number_bytes(content) + content
}

impl Encoder {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn number(&mut self, field: u64, number: u64) {
        self.varints([tag(field, VARINT), number]);
    }

    pub(super) fn fixed64(&mut self, field: u64, number: u64) {
        self.varints([tag(field, FIXED64)]);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn fixed32(&mut self, field: u64, number: u32) {
        self.varints([tag(field, FIXED32)]);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    #[inline]
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varints([tag(field, WITH_LENGTH), bytes.len() as u64]);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// A message of this size, up to the end of its first field, a text.
    #[inline]
    pub(super) fn message_with_text(&mut self, field: u64, bytes: u64, text_field: u64, text: &str) {
        let text_tag = tag(text_field, WITH_LENGTH);
        self.varints([tag(field, WITH_LENGTH), bytes, text_tag, text.len() as u64]);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Begins a message of this size.
    pub(super) fn sized(&mut self, field: u64, bytes: u64) {
        self.varints([tag(field, WITH_LENGTH), bytes]);
    }

    /// Begins a message whose size is known once it is written. Its length always takes four bytes, which is valid for
    /// a small one too, so nothing has to be moved.
    pub(super) fn begin(&mut self, field: u64) -> Begun {
        self.varints([tag(field, WITH_LENGTH)]);
        self.0.extend_from_slice(&[0; 4]);
        Begun(self.0.len())
    }

    pub(super) fn end(&mut self, Begun(begin): Begun) {
        let length = self.0.len() - begin;
        let bits = |place: usize| (length >> (7 * place)).to_le_bytes()[0] & 0x7f;
        let varint = [bits(0) | 0x80, bits(1) | 0x80, bits(2) | 0x80, bits(3)];
        self.0[begin - 4..begin].copy_from_slice(&varint);
    }

    /// Tags and lengths: most have one byte each.
    #[inline(always)]
    fn varints<const N: usize>(&mut self, numbers: [u64; N]) {
        if numbers.iter().fold(0, |all, number| all | number) < 0x80 {
            self.0.extend_from_slice(&numbers.map(|number| number.to_le_bytes()[0]));
        } else {
            numbers.into_iter().for_each(|number| self.varint(number));
        }
    }

    /// Seven bits a byte, the lowest first; all but the last have the highest bit set.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }
}
