//! Finds the dead-letter queues and checks them. The code is pure: AWS responses and the time are passed in as values.

mod finding;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use redeliver_core::message::Timestamp;

use super::facts::{
    FailureSender, OldestMessageAge, OldestMessageAges, QueueAttributes, QueueId, ReceivesByQueue, Survey,
    SurveyedState,
};
use super::report::{
    CheckedQueue, Dlq, DlqAlarm, DlqState, Feeder, FeederKind, Fleet, QueueFinding, RegionSummary,
};
use crate::status::{Receives, readers::Readers};

/// All surveyed data, by queue.
#[derive(Debug)]
pub(super) struct FleetSurvey<'a> {
    surveys: &'a [Survey],
    queues: BTreeMap<&'a QueueId, &'a SurveyedState>,
    feeders: BTreeMap<&'a QueueId, BTreeSet<Feeder>>,
    /// Accounts and regions whose queues were listed.
    listed: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> FleetSurvey<'a> {
    pub(super) fn new(surveys: &'a [Survey]) -> Self {
        let mut fleet = Self {
            surveys,
            queues: BTreeMap::new(),
            feeders: BTreeMap::new(),
            listed: surveys.iter().filter_map(listed_region).collect(),
        };
        for queue in surveys.iter().flat_map(|survey| survey.queues.iter().flatten()) {
            fleet.add_queue(&queue.id, &queue.state);
        }
        for Survey { functions, mappings, subscribers, .. } in surveys {
            fleet.add_feeders(FeederKind::Function, functions);
            fleet.add_feeders(FeederKind::EventSourceMapping, mappings);
            fleet.add_feeders(FeederKind::Subscriber, subscribers);
        }
        fleet
    }

    fn add_feeders(&mut self, kind: FeederKind, senders: &'a [FailureSender]) {
        for FailureSender { name, to } in senders {
            self.feeders.entry(to).or_default().insert(Feeder { kind, name: name.clone() });
        }
    }

    /// Adds a queue. Two profiles may list the same queue although only one of them can read its attributes.
    fn add_queue(&mut self, id: &'a QueueId, state: &'a SurveyedState) {
        if let SurveyedState::Read(QueueAttributes { redrives_to: Some(dlq), .. }) = state {
            let feeder = Feeder { kind: FeederKind::Queue, name: id.name.clone() };
            self.feeders.entry(dlq).or_default().insert(feeder);
        }
        let entry = self.queues.entry(id).or_insert(state);
        if matches!(state, SurveyedState::Read(_)) {
            *entry = state;
        }
    }

    /// Returns the queues that a redrive policy, a function, a mapping or a subscriber refers to, and queues named like
    /// a DLQ.
    pub(super) fn dlqs(&self) -> BTreeSet<&'a QueueId> {
        let named = self
            .queues
            .iter()
            .filter(|(id, state)| has_dlq_name(&id.name) && ***state != SurveyedState::Gone);
        self.feeders.keys().copied().chain(named.map(|(id, _)| *id)).collect()
    }

    pub(super) fn non_empty_dlqs(&self) -> BTreeSet<&'a QueueId> {
        let has_messages = |id: &&QueueId| {
            self.queue_attributes(id).is_some_and(|attributes| attributes.counts.has_messages())
        };
        self.dlqs().into_iter().filter(has_messages).collect()
    }

    /// Checks every DLQ and all other queues.
    pub(super) fn judge_dlqs(
        &self,
        ages: &OldestMessageAges,
        received: &ReceivesByQueue,
        now: Timestamp,
    ) -> Fleet {
        let dlqs = self.dlqs().into_iter();
        let mut dlqs: Vec<_> =
            dlqs.map(|id| self.judge_dlq(id, ages.get(id), received.get(id), now)).collect();
        dlqs.sort_by(|a, b| dlq_order(a).cmp(&dlq_order(b)));
        let regions = self.surveys.iter().filter_map(|survey| {
            Some(RegionSummary {
                account: survey.account.clone(),
                region: survey.region.clone(),
                profile: survey.profile.clone(),
                queues: survey.queues.as_ref()?.len() as u64,
            })
        });
        let problems = self.surveys.iter().flat_map(|survey| survey.problems.clone());
        let queues = self.checked_queues();
        Fleet { at: now, regions: regions.collect(), dlqs, queues, problems: problems.collect() }
    }

    fn judge_dlq(
        &self,
        id: &QueueId,
        age: Option<&OldestMessageAge>,
        received: Option<&Receives>,
        now: Timestamp,
    ) -> Dlq {
        let counts = self.queue_attributes(id).map(|attributes| attributes.counts).unwrap_or_default();
        let since = age.and_then(|age| age.at.checked_sub_signed(TimeDelta::try_seconds(age.seconds)?));
        let mut dlq = Dlq {
            name: id.name.clone(),
            account: id.account.clone(),
            region: id.region.clone(),
            state: self.dlq_state(id),
            fed_by: self.feeders.get(id).into_iter().flatten().cloned().collect(),
            read_by: self.functions_reading(id),
            readers: received.map(|received| {
                let listed = self.could_list_mappings(id);
                Readers::without_mapping(listed, None, counts.in_flight, Ok(received.clone()), now)
            }),
            counts,
            oldest_seconds: since.map(|since| (now - since).num_seconds()),
            first_deleted_by: since.zip(counts.retention()).and_then(|(since, kept)| kept.ends_at(since)),
            alarms: self.queue_alarms(id),
            findings: Vec::new(),
            error: match self.queues.get(id) {
                Some(SurveyedState::Unread(why)) => Some(why.clone()),
                _ => None,
            },
        };
        dlq.findings = finding::find_faults(&dlq, &self.source_queues(id), now);
        dlq.findings
            .extend(self.queue_attributes(id).into_iter().flat_map(|read| self.reader_findings(id, read)));
        dlq
    }

    /// Returns the queues that are not DLQs but have findings.
    fn checked_queues(&self) -> Vec<CheckedQueue> {
        let dlqs = self.dlqs();
        let others = self.queues.keys().copied();
        let others = others.filter(|id| !dlqs.contains(id) && !self.is_blocked_queue(id));
        let checked = others.filter_map(|id| {
            let read = self.queue_attributes(id)?;
            let findings: Vec<_> =
                finding::missing_dlq(read).into_iter().chain(self.reader_findings(id, read)).collect();
            let QueueId { account, region, name } = id.clone();
            (!findings.is_empty()).then_some(CheckedQueue { name, account, region, findings })
        });
        checked.collect()
    }

    /// Returns true for a redeliver deployment's `STACK-blocked` queue, which contains one notice per blocked group.
    /// Nothing reads it until an operator runs `redeliver unblock`.
    fn is_blocked_queue(&self, id: &QueueId) -> bool {
        let Some(deployment) = id.name.strip_suffix("-blocked") else { return false };
        self.queues.contains_key(&QueueId { name: format!("{deployment}-final-dlq"), ..id.clone() })
    }

    fn reader_findings(&self, id: &QueueId, read: &QueueAttributes) -> Vec<QueueFinding> {
        let readers = self.surveys.iter().flat_map(|survey| {
            let readers = survey.readers.iter().flatten().filter(|reader| reader.queue == *id);
            readers.map(|reader| (reader, survey.timeouts.get(&reader.function).copied()))
        });
        // Two profiles may list the same mapping although only one of them can list the functions.
        let mut by_mapping = BTreeMap::new();
        for (reader, timeout) in readers {
            let (_, known_timeout) =
                by_mapping.entry((&reader.mapping_uuid, &reader.function)).or_insert((reader, timeout));
            *known_timeout = known_timeout.or(timeout);
        }
        finding::find_reader_faults(read, &by_mapping.into_values().collect::<Vec<_>>())
    }

    fn queue_attributes(&self, id: &QueueId) -> Option<&'a QueueAttributes> {
        match self.queues.get(id) {
            Some(SurveyedState::Read(attributes)) => Some(attributes),
            _ => None,
        }
    }

    fn dlq_state(&self, id: &QueueId) -> DlqState {
        match self.queues.get(id) {
            Some(SurveyedState::Read(_)) => DlqState::There,
            Some(SurveyedState::Unread(_)) => DlqState::Unreadable,
            Some(SurveyedState::Gone) => DlqState::Missing,
            None if self.listed.contains(&(id.account.as_str(), id.region.as_str())) => DlqState::Missing,
            None => DlqState::NotLookedAt,
        }
    }

    /// Returns the queues whose redrive policies name this DLQ.
    fn source_queues(&self, id: &QueueId) -> Vec<(&'a QueueId, &'a QueueAttributes)> {
        let read = self.queues.keys().filter_map(|source| Some((*source, self.queue_attributes(source)?)));
        read.filter(|(_, attributes)| attributes.redrives_to.as_ref() == Some(id)).collect()
    }

    pub(super) fn functions_reading(&self, id: &QueueId) -> Vec<String> {
        let readers = self.surveys.iter().flat_map(|survey| survey.readers.iter().flatten());
        let readers = readers.filter(|reader| reader.queue == *id);
        readers.map(|reader| reader.function.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns true if the event source mappings of the queue's account and region could be listed.
    fn could_list_mappings(&self, id: &QueueId) -> bool {
        let is_same_account =
            |survey: &Survey| survey.account.as_ref().is_none_or(|account| *account == id.account);
        let mut in_region =
            self.surveys.iter().filter(|survey| survey.region == id.region && is_same_account(survey));
        in_region.any(|survey| survey.readers.is_some())
    }

    /// Returns the alarms on a queue; `None` if none were found and the alarms in its account could not be read. An
    /// alarm watches queues in its own region, possibly in a different account.
    fn queue_alarms(&self, id: &QueueId) -> Option<Vec<DlqAlarm>> {
        let in_region = || self.surveys.iter().filter(|survey| survey.region == id.region);
        let own_are_known =
            in_region().any(|survey| survey.account.as_ref() == Some(&id.account) && survey.alarms.is_some());
        let mut found = BTreeSet::new();
        for survey in in_region() {
            for alarm in survey.alarms.iter().flatten() {
                let is_same_account = |account: &Option<String>| {
                    account.as_ref().or(survey.account.as_ref()) == Some(&id.account)
                };
                if alarm
                    .watches
                    .iter()
                    .any(|watch| is_same_account(&watch.account) && watch.includes_queue(&id.name))
                {
                    found.insert(DlqAlarm { name: alarm.name.clone(), state: alarm.state.clone() });
                }
            }
        }
        (own_are_known || !found.is_empty()).then(|| found.into_iter().collect())
    }
}

fn listed_region(survey: &Survey) -> Option<(&str, &str)> {
    survey.queues.as_ref()?;
    Some((survey.account.as_deref()?, &survey.region))
}

fn dlq_order(dlq: &Dlq) -> impl Ord + '_ {
    (&dlq.account, &dlq.region, dlq.is_healthy(), Reverse(dlq.counts.total_messages()), &dlq.name)
}

fn has_dlq_name(name: &str) -> bool {
    let letters: String = name.to_ascii_lowercase().chars().filter(char::is_ascii_alphabetic).collect();
    letters.contains("dlq") || letters.contains("deadletter")
}

#[cfg(test)]
mod tests;
