//! The confirmed lines of an input: their numbers as ranges, and one digest that covers them all.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::ops::BitXorAssign;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::message_file::InputLines;

/// An order-independent digest of lines: the XOR of the first 128 bits of each line's SHA-256. It detects changes to a
/// file, not deliberate forgery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(u128);

impl Digest {
    /// Computes the digest of one line from its number and content.
    pub fn for_line(number: usize, content: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update((number as u64).to_be_bytes());
        hasher.update(content);
        let bytes: [u8; 32] = hasher.finalize().into();
        let (half, _) = bytes.split_at(16);
        Self(half.iter().fold(0, |digest, byte| digest << 8 | u128::from(*byte)))
    }
}

impl BitXorAssign for Digest {
    fn bitxor_assign(&mut self, other: Self) {
        self.0 ^= other.0;
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        format!("{:032x}", digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u128::from_str_radix(&text, 16).map(Self)
    }
}

/// The lines that SQS confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfirmedLines {
    /// The first line of each range, mapped to its last line. Ranges are never adjacent.
    ranges: BTreeMap<usize, usize>,
    digest: Digest,
}

impl ConfirmedLines {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns true if the line was confirmed.
    pub fn contains(&self, number: usize) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// Adds ranges of lines and the digest of their lines.
    pub fn add(&mut self, ranges: &[(usize, usize)], digest: Digest) {
        self.digest ^= digest;
        for range in ranges {
            self.add_range(*range);
        }
    }

    fn add_range(&mut self, (mut first, mut last): (usize, usize)) {
        if let Some((before, end)) = self.ranges.range(..first).next_back().map(|(b, e)| (*b, *e))
            && end.saturating_add(1) >= first
        {
            first = before;
            last = last.max(end);
        }
        while let Some((next, end)) =
            self.ranges.range(first..=last.saturating_add(1)).next().map(|(b, e)| (*b, *e))
        {
            self.ranges.remove(&next);
            last = last.max(end);
        }
        self.ranges.insert(first, last);
    }

    /// Returns true if the confirmed lines are unchanged, that is, if the input still matches their digest.
    pub(crate) fn matches_input(&self, lines: InputLines<impl BufRead>) -> io::Result<bool> {
        let last = self.ranges.last_key_value().map_or(0, |(_, last)| *last);
        let mut digest = Digest::default();
        for line in lines {
            let line = line?;
            if line.number > last {
                break;
            }
            if let Ok(content) = &line.content
                && self.contains(line.number)
            {
                digest ^= Digest::for_line(line.number, content);
            }
        }
        Ok(digest == self.digest)
    }
}

/// Groups ascending numbers into ranges, each as its first and last number.
pub(super) fn group_into_ranges(numbers: impl IntoIterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn confirm_lines(content: &[u8], numbers: &[usize]) -> ConfirmedLines {
        let mut confirmed = ConfirmedLines::default();
        for line in InputLines::for_messages(content).map(|line| line.unwrap()) {
            if numbers.contains(&line.number) {
                let digest = Digest::for_line(line.number, &line.content.unwrap());
                confirmed.add(&[(line.number, line.number)], digest);
            }
        }
        confirmed
    }

    #[test]
    fn ranges_added_in_any_order_contain_exactly_their_lines() {
        let added = [(5, 9), (20, 20), (1, 2), (4, 4), (10, 12), (3, 3), (19, 25), (40, 41)];
        let mut confirmed = ConfirmedLines::default();
        let mut expected = BTreeSet::new();
        for (first, last) in added {
            confirmed.add(&[(first, last)], Digest::default());
            expected.extend(first..=last);
            let found: BTreeSet<_> = (0..50).filter(|number| confirmed.contains(*number)).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(confirmed.ranges, [(1, 12), (19, 25), (40, 41)].into());
        assert_eq!(group_into_ranges(expected), [(1, 12), (19, 25), (40, 41)]);
        assert_eq!(group_into_ranges([]), []);
    }

    #[test]
    fn only_lines_that_were_sent_must_be_unchanged() {
        let confirmed = confirm_lines(b"a\nb\nc\nd\n", &[3, 1]);
        let matches = |content: &[u8]| confirmed.matches_input(InputLines::for_messages(content)).unwrap();
        for same in ["a\nb\nc\nd\n", "a\nB\nc", "a\r\nb\nc\nd\ne\n"] {
            assert!(matches(same.as_bytes()), "{same:?}");
        }
        for other in ["", "a\nb\n", "c\nb\na\n", "x\na\nb\nc\n", "a\nc\nb\n", "a\nb\ncc\n"] {
            assert!(!matches(other.as_bytes()), "{other:?}");
        }
    }
}
