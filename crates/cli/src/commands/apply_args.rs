//! `--apply`: without it, a command that changes something only prints its plan.

use clap::Args;
use redeliver_operator::terminal::stderr;

/// Chooses between applying a plan and showing it.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ApplyArgs {
    /// Carry the plan out instead of only showing it
    #[arg(long)]
    apply: bool,
}

impl ApplyArgs {
    /// True if `--apply` was given.
    pub const fn is_wanted(self) -> bool {
        self.apply
    }

    /// Returns the verb for an applied plan, or for a plan that is only printed.
    pub(crate) const fn choose_verb(self, does: &'static str, would: &'static str) -> &'static str {
        if self.apply { does } else { would }
    }

    /// Reminds the user, after a non-empty plan that was only printed, that nothing was done.
    pub(crate) fn remind_to_apply(self, is_something_planned: bool) {
        if is_something_planned && !self.apply {
            stderr::remark("nothing was done: add --apply");
        }
    }
}
