//! What changes something does it only with `--apply`; without it, or with `--dry-run`, the plan is shown.

use clap::Args;

use redeliver_operator::terminal::stderr;

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

    /// What is done, or would be.
    pub(crate) const fn verb(self, does: &'static str, would: &'static str) -> &'static str {
        if self.apply { does } else { would }
    }

    /// After a plan was shown, if there is anything in it.
    pub(crate) fn remark_that_nothing_was_done(self, is_something_planned: bool) {
        match self {
            _ if self.apply || !is_something_planned => {}
            Self { dry_run: true, .. } => stderr::remark("dry run: nothing was done"),
            Self { .. } => stderr::remark("nothing was done: add --apply"),
        }
    }
}
