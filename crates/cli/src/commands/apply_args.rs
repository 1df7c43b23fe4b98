//! `--apply` and `--dry-run`: a command that changes something only shows its plan, unless it has `--apply`.

use clap::Args;
use redeliver_operator::terminal::stderr;

/// Chooses between applying a plan and showing it.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ApplyArgs {
    /// Carry the plan out; without this option it is only shown
    #[arg(long, conflicts_with = "dry_run")]
    apply: bool,
    /// Only show the plan, as without --apply
    #[arg(long)]
    dry_run: bool,
}

impl ApplyArgs {
    /// True with `--apply`.
    pub const fn is_wanted(self) -> bool {
        self.apply
    }

    /// True with `--dry-run`: the plan itself is wanted.
    pub(crate) const fn is_dry_run(self) -> bool {
        self.dry_run
    }

    /// The verb for a plan that is applied, or for one that is only shown.
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
