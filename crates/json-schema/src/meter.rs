//! What a check may cost: a message that would burn a function's time is refused instead, the same on every machine.

use std::cell::Cell;

/// Steps of one check: about as many instructions. docs/performance.md ("Hostile messages") has what they take.
const BUDGET: u64 = 400_000_000;

/// One look at a value.
pub(crate) const LOOK: u64 = 30;
/// A number that is read to be compared, without its digits.
pub(crate) const NUMBER: u64 = 200;
/// One violation, without its place: it takes half a kilobyte.
pub(crate) const VIOLATION: u64 = 30_000;

/// What matching a member's name with the patterns of `patternProperties` takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names {
    pub(crate) of_name: u64,
    pub(crate) of_byte: u64,
    /// Whether such a pattern may step back: then what it has not finished is no verdict.
    pub(crate) step_back: bool,
}

/// Counts down while a document is read.
#[derive(Debug)]
pub(crate) struct Meter {
    left: Cell<u64>,
    names: Names,
}

impl Meter {
    /// With all of a check's budget.
    pub(crate) fn new(names: Names) -> Self {
        Self { left: Cell::new(BUDGET), names }
    }

    /// Whether there was something left for it. Once there was not, there is nothing left for anything.
    pub(crate) fn spend(&self, steps: u64) -> bool {
        let left = self.left.get().saturating_sub(steps);
        self.left.set(left);
        left > 0
    }

    #[cfg(test)]
    pub(crate) fn spent(&self) -> u64 {
        BUDGET - self.left.get()
    }

    /// Whether the check was not finished.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left.get() == 0
    }

    /// What a member's name takes.
    pub(crate) fn of_name(&self, name: &str) -> u64 {
        of_bytes(name.len()) + self.names.of_name + self.names.of_byte * name.len() as u64
    }

    /// Whether what is found once it is exhausted can be known from the rest.
    pub(crate) fn marks_what_is_not_read(&self) -> bool {
        !self.names.step_back
    }
}

/// What reading a text once takes, each byte some ten instructions.
pub(crate) fn of_bytes(bytes: usize) -> u64 {
    LOOK + 10 * bytes as u64
}
