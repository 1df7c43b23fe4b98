//! What changes something does it only with `--apply`; without it, or with `--dry-run`, the plan is shown.

use clap::Args;

use crate::tell;

/// Whether it is done.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Applying {
    /// Do it; without this, what would be done is shown
    #[arg(long, conflicts_with = "dry_run")]
    apply: bool,
    /// Only show what would be done, which is also what happens without --apply
    #[arg(long)]
    dry_run: bool,
}

impl Applying {
    /// Whether it is done, and not only shown.
    pub const fn is_wanted(self) -> bool {
        self.apply
    }

    /// After a plan was shown.
    pub(crate) fn remark_that_nothing_was_done(self) {
        match self.dry_run {
            true => tell::remark("dry run: nothing was done"),
            false => tell::remark("nothing was done: add --apply"),
        }
    }
}
