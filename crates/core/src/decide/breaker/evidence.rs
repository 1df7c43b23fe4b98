//! The sequential test for an outage: weighs a run of outages against the share of calls that fail at random.
//!
//! If the target only fails at random, a run of `n` outages has a probability of `share^n`. The breaker opens when that
//! probability is below one in sixty million: after six outages in a row for a target that hardly ever fails, after 26
//! for a target that fails half of its calls, and after ten for a new target.

/// Nats of evidence that open the breaker: ten outages in a row at a prior share of one in six.
pub(super) const CERTAIN_NATS: f32 = 17.9;
/// Nats of evidence that suffice if the target was down recently.
pub(super) const LIKELY_NATS: f32 = CERTAIN_NATS / 2.0;

/// Before its first call, a target is assumed to fail one call in six. This prior carries the weight of six calls.
const PRIOR_SHARE: f32 = 1.0 / 6.0;
const PRIOR_CALLS: f32 = 6.0;
/// Bounds of the assumed failure share.
const SHARE_MIN: f32 = 0.05;
const SHARE_MAX: f32 = 0.98;
/// The history is halved when it reaches this many calls, so the weight of older calls decays.
const HISTORY_CALLS: u16 = 256;

/// Number of calls before the current run, and number of those that failed at random.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutageEvidence {
    calls: u16,
    outages: u16,
}

impl OutageEvidence {
    /// Records an answer after a run of `run` outages, which are now known to have been random.
    pub(super) fn record_answer(&mut self, run: u16) {
        self.calls = self.calls.saturating_add(run).saturating_add(1);
        self.outages = self.outages.saturating_add(run);
        while self.calls >= HISTORY_CALLS {
            self.calls /= 2;
            self.outages /= 2;
        }
    }

    /// Returns the share of calls that fail although the target is up.
    pub(super) fn failure_share(&self) -> f32 {
        self.share_with_prior(PRIOR_SHARE)
    }

    pub(super) fn share_with_prior(&self, prior: f32) -> f32 {
        let share = (f32::from(self.outages) + PRIOR_CALLS * prior) / (f32::from(self.calls) + PRIOR_CALLS);
        share.clamp(SHARE_MIN, SHARE_MAX)
    }
}

/// Returns the evidence from this many outages in a row, in nats.
pub(super) fn evidence_nats(outages: u16, share: f32) -> f32 {
    f32::from(outages) * -share.ln()
}
