//! The window of recent calls, and the test for an outage.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::CallOutcome;
use crate::deliver::until;
use crate::message::Timestamp;
use crate::policy::CircuitBreaker;

/// Only the newest calls count, this many times `minimum_calls`. If half of 50 calls fail on average, 40 failures are
/// one chance in 80,000.
const NEWEST_CALLS: u32 = 5;

/// The message's tenant: its `MessageGroupId`, as on a standard queue ("Amazon SQS fair queues").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenant(u64);

impl Tenant {
    #[must_use]
    pub fn of(message_group_id: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        message_group_id.hash(&mut hasher);
        Self(hasher.finish())
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) at: Timestamp,
    pub(super) tenant: Option<Tenant>,
    pub(super) met: CallOutcome,
}

/// Ended calls, newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(VecDeque<Call>);

impl Calls {
    /// Adds a call, and drops those that no longer count.
    pub(super) fn push(
        &mut self,
        call: Call,
        &CircuitBreaker { window, minimum_calls, .. }: &CircuitBreaker,
    ) {
        self.0.push_back(call);
        // Outages not followed by an answer count however old they are: at low traffic, and with slow calls, they are
        // the only evidence.
        let since_answer = self.0.iter().rev().take_while(|call| call.met == CallOutcome::Outage).count();
        let is_old = |oldest: &Call| until(oldest.at, call.at) >= window;
        while self.0.len() > since_answer && self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        // Under load a second of calls shows an outage; half a minute of earlier answers must not outvote it.
        while self.len() > minimum_calls * NEWEST_CALLS {
            self.0.pop_front();
        }
    }

    /// True if a call ended less than `window` before `now`.
    pub(super) fn are_recent(&self, window: Duration, now: Timestamp) -> bool {
        self.0.back().is_some_and(|newest| until(newest.at, now) < window)
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn outages(&self) -> u32 {
        let outages = self.0.iter().filter(|call| call.met == CallOutcome::Outage).count();
        u32::try_from(outages).unwrap_or(u32::MAX)
    }

    /// True if enough calls ended, the policy's share of them met an outage, and the last one did, too; and if the same
    /// share holds without the tenant that met the most outages, since one tenant's failures are not an outage for the
    /// others.
    pub(super) fn show_an_outage(&self, settings: &CircuitBreaker) -> bool {
        // An answer makes the share of outages smaller, never larger.
        let newest_is_outage = self.0.back().is_some_and(|call| call.met == CallOutcome::Outage);
        if !newest_is_outage || self.len() < settings.minimum_calls {
            return false;
        }
        let shows = |calls: u32, outages: u32| f64::from(outages) / f64::from(calls) >= settings.failure_rate;
        let (calls, outages) = (self.len(), self.outages());
        if !shows(calls, outages) {
            return false;
        }
        let (calls_of_worst, outages_of_worst) = self.worst_tenant();
        calls == calls_of_worst || shows(calls - calls_of_worst, outages - outages_of_worst)
    }

    /// Calls and outages of the tenant with the most outages. Of two with equally many it is the one with fewer calls:
    /// the other's answers show that the target is there.
    fn worst_tenant(&self) -> (u32, u32) {
        let mut tenants: BTreeMap<Tenant, (u32, u32)> = BTreeMap::new();
        for Call { tenant, met, .. } in &self.0 {
            if let Some(tenant) = tenant {
                let (calls, outages) = tenants.entry(*tenant).or_default();
                *calls += 1;
                *outages += u32::from(*met == CallOutcome::Outage);
            }
        }
        let worst = tenants.into_values().max_by_key(|(calls, outages)| (*outages, Reverse(*calls)));
        worst.unwrap_or_default()
    }
}
