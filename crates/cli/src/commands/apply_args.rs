//! `--apply`: a command that changes something only shows its plan, unless it has this option.

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
    /// True with `--apply`.
    pub const fn is_wanted(self) -> bool {
        self.apply
    }

    /// The verb for a plan that is applied, or for one that is only shown.
    pub(crate) const fn choose_verb(self, does: &'static str, would: &'static str) -> &'static str {
        if self.apply { does } else { would }
    }

    /// After a plan was shown, if there is anything in it.
    pub(crate) fn remark_nothing_done(self, is_something_planned: bool) {
        if is_something_planned && !self.apply {
            stderr::remark("nothing was done: add --apply");
        }
    }
}
