//! How deep a body nests: a stack-free look at the brackets outside strings. Whether they match is the parser's business.

use super::{Malformed, NESTING_MAX};

/// Bytes that are looked at together: as many as a word has bits.
const BLOCK: usize = 64;

/// Refuses what nests deeper than [`NESTING_MAX`].
pub(super) fn check_nesting(body: &str) -> Result<(), Malformed> {
    let bytes = body.as_bytes();
    if has_few_brackets(bytes) {
        return Ok(());
    }
    let mut scan = Scan::default();
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for (index, block) in blocks.iter().enumerate() {
        if !scan.take_block(block) {
            scan.take_bytes(block, index * BLOCK)?;
        }
    }
    scan.take_bytes(rest, blocks.len() * BLOCK)
}

/// Most small bodies have so few brackets that they need not be told from those in strings. Counted in blocks whose count fits in
/// a byte: the compiler makes vector instructions of that.
fn has_few_brackets(bytes: &[u8]) -> bool {
    let mut count = 0;
    bytes.chunks(128).all(|block| {
        count += usize::from(block.iter().map(|byte| u8::from(is_opening(*byte))).sum::<u8>());
        count <= NESTING_MAX
    })
}

/// Where the scan stands.
#[derive(Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Scan {
    /// Takes a block without a branch for each byte, as simdjson finds strings ("Parsing Gigabytes of JSON per Second"). Leaves
    /// it alone, and says so, where it might be too deep, closes more than is open, or has escapes that are not simple: two
    /// backslashes side by side, one at the end, one outside a string.
    fn take_block(&mut self, block: &[u8; BLOCK]) -> bool {
        let backslashes = mask(block, |byte| byte == b'\\');
        let escaped = backslashes << 1;
        let quotes = mask(block, |byte| byte == b'"') & !escaped;
        let before = if self.in_string { u64::MAX } else { 0 };
        let outside = !(parity_so_far(quotes) ^ before);
        let is_last_a_backslash = backslashes >> (BLOCK - 1) == 1;
        if self.is_escaped || is_last_a_backslash || backslashes & (escaped | outside) != 0 {
            return false;
        }
        let opened = (mask(block, is_opening) & outside).count_ones() as usize;
        let closed = (mask(block, is_closing) & outside).count_ones() as usize;
        if self.depth + opened > NESTING_MAX || closed > self.depth {
            return false;
        }
        self.depth = self.depth + opened - closed;
        self.in_string ^= quotes.count_ones() % 2 == 1;
        true
    }

    /// The same byte by byte. `offset` is where they begin in the body.
    fn take_bytes(&mut self, bytes: &[u8], offset: usize) -> Result<(), Malformed> {
        for (index, byte) in bytes.iter().enumerate() {
            if self.is_escaped {
                self.is_escaped = false;
            } else if *byte == b'"' {
                self.in_string = !self.in_string;
            } else if self.in_string {
                self.is_escaped = *byte == b'\\';
            } else if is_opening(*byte) {
                self.depth += 1;
                if self.depth > NESTING_MAX {
                    return Err(Malformed::TooDeep(offset + index));
                }
            } else if is_closing(*byte) {
                self.depth = self.depth.saturating_sub(1);
            }
        }
        Ok(())
    }
}

fn is_opening(byte: u8) -> bool {
    matches!(byte, b'{' | b'[')
}

fn is_closing(byte: u8) -> bool {
    matches!(byte, b'}' | b']')
}

/// A bit for each byte, the first one lowest.
fn mask(block: &[u8; BLOCK], is_marked: impl Fn(u8) -> bool) -> u64 {
    /// Brings the lowest bits of eight bytes together in the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    // A loop and no `map`: the compiler makes vector instructions of it.
    let mut marks = [0; BLOCK];
    for (mark, byte) in marks.iter_mut().zip(block) {
        *mark = u8::from(is_marked(*byte));
    }
    let (eights, _) = marks.as_chunks::<8>();
    let gathered = eights.iter().map(|eight| u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56);
    gathered.rev().fold(0, |mask, bits| mask << 8 | bits)
}

/// Each bit says whether an odd number of bits is set up to and with its own: from a quote to before the next one.
fn parity_so_far(bits: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(bits, |bits, by| bits ^ (bits << by))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Byte by byte, as anybody would write it down.
    fn first_too_deep(body: &str) -> Option<usize> {
        let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
        body.bytes().position(|byte| {
            match (in_string, byte) {
                _ if is_escaped => is_escaped = false,
                (true, b'\\') => is_escaped = true,
                (_, b'"') => in_string = !in_string,
                (false, b'{' | b'[') => depth += 1,
                (false, b'}' | b']') => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth > NESTING_MAX
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn nesting_is_what_the_brackets_outside_strings_say(
            parts in prop::collection::vec(
                (
                    select(vec!["[", "{", "]", "}", "\"", "\\", "\\\"", "\"[[[[\"", "\"text of some length\"", "é", "[[[[[[[[", "]]]]]]"]),
                    1..20_usize,
                ),
                0..60,
            ),
        ) {
            let body: String = parts.into_iter().map(|(part, times)| part.repeat(times)).collect();
            let expected = first_too_deep(&body).map_or(Ok(()), |at| Err(Malformed::TooDeep(at)));
            prop_assert_eq!(check_nesting(&body), expected);
        }
    }

    #[test]
    fn a_mask_has_a_bit_for_each_byte() {
        let mut block = [b'x'; BLOCK];
        for index in [0, 1, 8, 31, 62, 63] {
            block[index] = b'"';
        }
        let expected = [0, 1, 8, 31, 62, 63].into_iter().fold(0, |mask, index| mask | 1_u64 << index);
        assert_eq!(mask(&block, |byte| byte == b'"'), expected);
        assert_eq!(parity_so_far(0b0100_1000), 0b0011_1000);
        assert_eq!(parity_so_far(1), u64::MAX);
    }
}
