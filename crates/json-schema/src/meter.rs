//! The budget of a check, the same on every machine. A message that would use up a function's time is refused instead.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::rc::Rc;

thread_local! {
    /// The meter of the check in progress, since the validator reads members' names without their document.
    static OF_THIS_CHECK: RefCell<Option<Rc<Meter>>> = const { RefCell::new(None) };
}

/// Steps of one check, each about one instruction. docs/performance.md ("Hostile messages") has the time they take.
const BUDGET: u64 = 400_000_000;

/// Additional steps after the budget, to report violations that were found.
const REPORTING_BUDGET: u64 = BUDGET / 4;

/// Steps to look at a value.
pub(crate) const LOOK: u64 = 30;
/// Steps to compare a number, without its digits.
pub(crate) const NUMBER: u64 = 200;
/// Steps of a violation, without its pointer: it takes half a kilobyte.
pub(crate) const VIOLATION: u64 = 30_000;

/// Steps to match a member's name with the patterns of `patternProperties`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NameCosts {
    pub(crate) per_name: u64,
    pub(crate) per_byte: u64,
    /// True if a pattern may backtrack: an unfinished match is not a verdict.
    pub(crate) may_backtrack: bool,
}

/// The panic payload that ends a check; [`crate::check`] catches it, and no panic hook sees it.
pub(crate) struct Ended;

/// Counts down while a document is read.
#[derive(Debug)]
pub(crate) struct Meter {
    left: Cell<u64>,
    reporting_left: Cell<u64>,
    names: NameCosts,
}

impl Meter {
    /// A meter with a whole budget.
    pub(crate) fn new(names: NameCosts) -> Self {
        Self { left: Cell::new(BUDGET), reporting_left: Cell::new(REPORTING_BUDGET), names }
    }

    /// Takes steps from the budget; false once it is exhausted.
    ///
    /// # Panics
    /// With [`Ended`], if a check continues without reading: the validator cannot be stopped otherwise.
    pub(crate) fn spend(&self, steps: u64) -> bool {
        let left = self.left.get();
        if left == 0 {
            let reporting_left = self.reporting_left.get().saturating_sub(steps);
            self.reporting_left.set(reporting_left);
            if reporting_left == 0 {
                resume_unwind(Box::new(Ended));
            }
        }
        self.left.set(left.saturating_sub(steps));
        left > steps
    }

    /// The meter of the check in progress.
    pub(crate) fn of_this_check() -> Option<Rc<Self>> {
        OF_THIS_CHECK.with_borrow(Clone::clone)
    }

    /// Makes this [`Meter::of_this_check`] during the check.
    pub(crate) fn during<T>(self: &Rc<Self>, check: impl FnOnce() -> T) -> T {
        let before = OF_THIS_CHECK.replace(Some(Rc::clone(self)));
        let checked = check();
        OF_THIS_CHECK.set(before);
        checked
    }

    /// Charges for a look at a value.
    pub(crate) fn look(&self) {
        self.spend(LOOK);
    }

    #[cfg(test)]
    pub(crate) fn spent(&self) -> u64 {
        BUDGET - self.left.get()
    }

    /// True if the check was not finished.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left.get() == 0
    }

    /// The steps of a member's name.
    pub(crate) fn cost_of_name(&self, name: &str) -> u64 {
        of_bytes(name.len()) + self.names.per_name + self.names.per_byte * name.len() as u64
    }

    /// True if violations after the end of the budget are marked as unread.
    pub(crate) fn marks_unread_values(&self) -> bool {
        !self.names.may_backtrack
    }
}

/// The steps to read a text once, about ten per byte.
pub(crate) fn of_bytes(bytes: usize) -> u64 {
    LOOK + 10 * bytes as u64
}
