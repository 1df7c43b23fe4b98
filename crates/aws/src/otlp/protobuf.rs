//! Protocol Buffers, as far as OTLP's spans need them ("Encoding", Protocol Buffers Documentation).

/// Writes the fields of a message.
#[derive(Debug)]
pub(super) struct Encoder(Vec<u8>);

/// Kinds of fields.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const WITH_LENGTH: u32 = 2;
const FIXED32: u32 = 5;

impl Encoder {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn number(&mut self, field: u32, number: u64) {
        self.begin(field, VARINT);
        self.varint(number);
    }

    pub(super) fn fixed64(&mut self, field: u32, number: u64) {
        self.begin(field, FIXED64);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn fixed32(&mut self, field: u32, number: u32) {
        self.begin(field, FIXED32);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.begin(field, WITH_LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// A message within this one.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.begin(field, WITH_LENGTH);
        // Its length is not known yet: most take one byte.
        let length_at = self.0.len();
        self.0.push(0);
        write(self);
        match u8::try_from(self.0.len() - length_at - 1) {
            Ok(short @ ..0x80) => self.0[length_at] = short,
            _ => {
                let mut length = Self::with_capacity(4);
                length.varint((self.0.len() - length_at - 1) as u64);
                self.0.splice(length_at..=length_at, length.0);
            }
        }
    }

    fn begin(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    // Most are small: tags and lengths.
    #[inline(always)]
    fn varint(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(small @ ..0x80) => self.0.push(small),
            _ => self.large_varint(number),
        }
    }

    /// Seven bits a byte, the lowest first; all but the last have the highest bit set.
    fn large_varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }
}
