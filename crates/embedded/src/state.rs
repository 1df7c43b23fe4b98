//! The state of the service. Every request passes through the fault plan.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redeliver_core::limits::{BATCH_ENTRIES_MAX, VisibilitySeconds};
use redeliver_core::message::{Content, ReceivedMessage, Timestamp};
use redeliver_core::ports::{Depth, EntryError, EntryOutcome, QueueSettings, ReceiveOptions, is_fifo};
use tokio::sync::Notify;

use crate::changes::ChangeLog;
use crate::checks::{check_content, check_name, check_queue_type, check_settings, sender_fault};
use crate::faults::{FaultPlan, FaultScope, Injection, SqsAction};
use crate::queue::{MessageKey, QueueState};

#[derive(Debug)]
pub(crate) struct ServiceState {
    queues: BTreeMap<String, QueueState>,
    queues_created: u32,
    messages_sent: MessageKey,
    rng: StdRng,
    pub(crate) requests: BTreeMap<&'static str, u64>,
    pub(crate) faults: FaultPlan,
    /// The maximum age of a queue's counts.
    pub(crate) counts_lag: Duration,
    pub(crate) log: ChangeLog,
    /// Queues with arrivals, whose long polls are woken after the lock is released.
    arrivals: Vec<Arc<Notify>>,
}

/// The result of one receive attempt of a long poll.
pub(crate) struct ReceiveAttempt {
    pub(crate) messages: Vec<ReceivedMessage>,
    /// The time at which another attempt may return a message.
    pub(crate) next_visible: Option<Timestamp>,
}

impl ServiceState {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            queues: BTreeMap::new(),
            queues_created: 0,
            messages_sent: 0,
            rng: StdRng::seed_from_u64(seed),
            requests: BTreeMap::new(),
            faults: FaultPlan::default(),
            counts_lag: Duration::ZERO,
            log: ChangeLog::default(),
            arrivals: Vec::new(),
        }
    }

    fn has_queue(&self, arn: &str) -> bool {
        self.queues.contains_key(arn)
    }

    pub(crate) fn queue_depth(&mut self, now: Timestamp, arn: &str) -> Result<Depth, EntryError> {
        let lag = self.counts_lag;
        Ok(self.queue_mut(arn)?.lagged_depth(now, lag))
    }

    pub(crate) fn next_visible_at(&self) -> Option<Timestamp> {
        self.queues.values().filter_map(QueueState::next_visible_at).min()
    }

    pub(crate) fn queue_mut(&mut self, arn: &str) -> Result<&mut QueueState, EntryError> {
        self.queues.get_mut(arn).ok_or_else(|| sender_fault("QueueDoesNotExist"))
    }

    /// Returns the queues with arrivals since the last call.
    #[must_use]
    pub(crate) fn take_arrivals(&mut self) -> Vec<Arc<Notify>> {
        std::mem::take(&mut self.arrivals)
    }

    /// Counts a request; returns its fault, if any.
    pub(crate) fn begin_request(&mut self, action: SqsAction, arn: &str) -> Option<Injection> {
        *self.requests.entry(action.api_name()).or_default() += 1;
        self.faults.next_fault(FaultScope::Request, action, arn)
    }

    /// Carries out a request without batch entries.
    pub(crate) fn apply_request<T>(
        &mut self,
        action: SqsAction,
        arn: &str,
        apply: impl FnOnce(&mut Self) -> Result<T, EntryError>,
    ) -> Result<T, EntryError> {
        let fault = self.begin_request(action, arn);
        apply_fault(fault, || apply(self))
    }

    /// Carries out a batch request. Returns one outcome per entry, in order.
    pub(crate) fn apply_batch<E, T>(
        &mut self,
        action: SqsAction,
        arn: &str,
        entries: &[E],
        mut apply: impl FnMut(&mut Self, &E) -> EntryOutcome<T>,
    ) -> Vec<EntryOutcome<T>> {
        if entries.is_empty() {
            return Vec::new();
        }
        let request_fault = self.begin_request(action, arn);
        if entries.len() > BATCH_ENTRIES_MAX {
            return entries.iter().map(|_| Err(sender_fault("TooManyEntriesInBatchRequest"))).collect();
        }
        entries
            .iter()
            .map(|entry| {
                let fault = request_fault.or_else(|| self.faults.next_fault(FaultScope::Entry, action, arn));
                apply_fault(fault, || apply(self, entry))
            })
            .collect()
    }

    pub(crate) fn create_queue(
        &mut self,
        name: &str,
        arn: &str,
        settings: &QueueSettings,
    ) -> Result<(), EntryError> {
        check_name(name)?;
        check_settings(settings)?;
        if let Some(existing) = self.queues.get(arn) {
            let is_same = existing.settings() == settings;
            return if is_same { Ok(()) } else { Err(sender_fault("QueueNameExists")) };
        }
        // The dead-letter queue of a FIFO queue must also be a FIFO queue, and the dead-letter queue of a standard
        // queue must be a standard queue ("Using dead-letter queues in Amazon SQS").
        let fits = |target: &str| self.has_queue(target) && is_fifo(target) == is_fifo(name);
        if settings.redrive.as_ref().is_some_and(|redrive| !fits(&redrive.target_arn)) {
            return Err(sender_fault("InvalidParameterValue"));
        }
        self.queues_created += 1;
        let queue = QueueState::new(arn.to_owned(), self.queues_created, settings.clone(), self.log.clone());
        self.queues.insert(arn.to_owned(), queue);
        Ok(())
    }

    pub(crate) fn delete_queue(&mut self, arn: &str) -> Result<(), EntryError> {
        let queue = self.queues.remove(arn).ok_or_else(|| sender_fault("QueueDoesNotExist"))?;
        // Wakes its long polls, which then find that the queue no longer exists.
        self.arrivals.push(queue.arrivals());
        Ok(())
    }

    /// Sends a message. Returns its SQS message id, or the id of the message that it duplicates.
    pub(crate) fn send_message(
        &mut self,
        now: Timestamp,
        arn: &str,
        sender_id: &Arc<str>,
        content: &Content,
    ) -> EntryOutcome<String> {
        check_content(content)?;
        let queue = self.queue_mut(arn)?;
        check_queue_type(queue.is_fifo(), content)?;
        if let Some(id) = queue.find_duplicate(now, content.deduplication_id.as_deref()) {
            return Ok(id.clone());
        }
        let id = uuid::Builder::from_random_bytes(self.rng.random()).into_uuid().to_string();
        let key = self.messages_sent;
        let queue = self.queue_mut(arn)?;
        queue.add_sent_message(now, (key, id.clone()), Arc::clone(sender_id), content.clone());
        let arrivals = queue.arrivals();
        self.arrivals.push(arrivals);
        self.messages_sent += 1;
        Ok(id)
    }

    /// Deletes a message; in a FIFO queue, this unblocks its group.
    pub(crate) fn delete_message(&mut self, now: Timestamp, arn: &str, handle: &str) -> EntryOutcome<()> {
        let queue = self.queue_mut(arn)?;
        queue.delete_message(now, handle)?;
        if queue.is_fifo() {
            let arrivals = queue.arrivals();
            self.arrivals.push(arrivals);
        }
        Ok(())
    }

    /// Changes a message's visibility timeout. A long poll may then receive the message sooner.
    pub(crate) fn change_visibility(
        &mut self,
        now: Timestamp,
        arn: &str,
        handle: &str,
        visibility: VisibilitySeconds,
    ) -> EntryOutcome<()> {
        let queue = self.queue_mut(arn)?;
        queue.change_visibility(now, handle, visibility)?;
        let arrivals = queue.arrivals();
        self.arrivals.push(arrivals);
        Ok(())
    }

    /// Makes one attempt to receive. Exhausted messages are moved to the dead-letter queue, or delivered if that queue
    /// was deleted.
    pub(crate) fn receive_messages(
        &mut self,
        now: Timestamp,
        arn: &str,
        request: ReceiveOptions,
    ) -> Result<ReceiveAttempt, EntryError> {
        let redrive = self.queue_mut(arn)?.settings().redrive.clone();
        let redrive = redrive.filter(|redrive| self.has_queue(&redrive.target_arn));
        let limit = redrive.as_ref().map(|redrive| u32::from(redrive.max_receive_count));
        let rng = &mut self.rng;
        let queue = self.queues.get_mut(arn).ok_or_else(|| sender_fault("QueueDoesNotExist"))?;
        let max = usize::from(request.max_messages);
        let received = queue.receive_batch(now, max, request.visibility, limit, || rng.random())?;
        let attempt = ReceiveAttempt { messages: received.messages, next_visible: queue.next_visible_at() };
        if let Some(redrive) = redrive.filter(|_| !received.exhausted.is_empty()) {
            let target = self.queue_mut(&redrive.target_arn)?;
            for message in received.exhausted {
                target.add_redriven_message(now, message, arn);
            }
            let arrivals = target.arrivals();
            self.arrivals.push(arrivals);
        }
        Ok(attempt)
    }
}

/// Applies a request unless the fault prevents it. Returns its result unless the fault replaces it.
fn apply_fault<T>(
    fault: Option<Injection>,
    apply: impl FnOnce() -> Result<T, EntryError>,
) -> Result<T, EntryError> {
    match fault {
        None => apply(),
        Some(fault) => {
            if fault.takes_effect() {
                // The response is lost.
                let _ = apply();
            }
            Err(fault.to_error())
        }
    }
}
