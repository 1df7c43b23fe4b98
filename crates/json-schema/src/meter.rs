//! What a check may cost: a message that would burn a function's time is refused instead, the same on every machine.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::rc::Rc;

thread_local! {
    /// Of the check that is going on: the validator reads the names of members without their document.
    static OF_THIS_CHECK: RefCell<Option<Rc<Meter>>> = const { RefCell::new(None) };
}

/// Steps of one check: about as many instructions. docs/performance.md ("Hostile messages") has what they take.
const BUDGET: u64 = 400_000_000;

/// Steps beyond it that are still given: a check that found something may tell it.
const BEYOND: u64 = BUDGET / 4;

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

/// What a check is unwound with that is over; [`crate::found`] catches it, and no panic hook sees it.
pub(crate) struct Ended;

/// Counts down while a document is read.
#[derive(Debug)]
pub(crate) struct Meter {
    left: Cell<u64>,
    beyond: Cell<u64>,
    names: Names,
}

impl Meter {
    /// With all of a check's budget.
    pub(crate) fn new(names: Names) -> Self {
        Self { left: Cell::new(BUDGET), beyond: Cell::new(BEYOND), names }
    }

    /// Whether there was something left for it. Once there was not, there is nothing left for anything.
    ///
    /// # Panics
    /// With [`Ended`], once a check goes on and on without reading: the validator knows no other way to be stopped.
    pub(crate) fn spend(&self, steps: u64) -> bool {
        let left = self.left.get();
        if left == 0 {
            let beyond = self.beyond.get().saturating_sub(steps);
            self.beyond.set(beyond);
            if beyond == 0 {
                resume_unwind(Box::new(Ended));
            }
        }
        self.left.set(left.saturating_sub(steps));
        left > steps
    }

    /// That of the check that is going on.
    pub(crate) fn of_this_check() -> Option<Rc<Self>> {
        OF_THIS_CHECK.with_borrow(Clone::clone)
    }

    /// Is [`Meter::of_this_check`] for as long as the check takes.
    pub(crate) fn during<T>(self: &Rc<Self>, check: impl FnOnce() -> T) -> T {
        let before = OF_THIS_CHECK.replace(Some(Rc::clone(self)));
        let checked = check();
        OF_THIS_CHECK.set(before);
        checked
    }

    /// Looks at a value.
    pub(crate) fn look(&self) {
        self.spend(LOOK);
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
