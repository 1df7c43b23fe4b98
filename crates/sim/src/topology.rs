//! The queues that a strategy needs, as in the deployed stack.

use std::collections::BTreeMap;
use std::time::Duration;

use redeliver_core::decide::QueueTimes;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::origin::Resenders;
use redeliver_core::ports::{EntryError, Queue, QueueService, QueueSettings, RedriveSettings};
use redeliver_core::strategy::{NeededQueue, RetryLoop, Role, Wiring};
use redeliver_embedded::EmbeddedQueue;

use crate::batching::Batching;

/// The functions' timeout: the construct's default (`timeout` in infra/lib/planning.ts).
pub(super) const INVOCATION_TIMEOUT: Duration = Duration::from_secs(60);

/// The queues of one retry loop.
#[derive(Clone, Debug)]
pub struct Topology<Q> {
    pub retry_loop: RetryLoop,
    /// The batch settings of the source queue.
    pub batching: Batching,
    /// The roles that re-send messages to the source queue, recognized by the messages' `SenderId`.
    pub resenders: Resenders,
    /// The queue to which producers send messages, or to which Lambda sends its records of failed invocations.
    pub source: Q,
    /// The queue in which failed messages wait for the failed-message-processor; `None` if they remain on the source
    /// queue.
    pub intermediate: Option<Q>,
    /// The queue to which SQS moves messages from an ordered source queue; `None` with other strategies.
    pub source_dlq: Option<Q>,
    /// The queue in which verdicts wait for the final-dlq-annotator.
    pub annotation: Q,
    pub final_dlq: Q,
}

impl Topology<EmbeddedQueue> {
    /// Returns the queues as the functions use them: under a separate role, as on AWS.
    #[must_use]
    pub fn for_functions(&self) -> Self {
        const ROLE: &str = "AROAREDELIVER00000000";
        let resenders = Resenders::parse(ROLE).expect("every run parses this role id");
        let queues = self.map_queues(|queue| queue.with_sender(&format!("{ROLE}:functions")));
        Self { resenders, ..queues }
    }
}

impl<Q> Topology<Q> {
    /// Returns the same topology with other queues.
    pub(crate) fn map_queues<T>(&self, queue: impl Fn(&Q) -> T) -> Topology<T> {
        Topology {
            retry_loop: self.retry_loop,
            batching: self.batching,
            resenders: self.resenders.clone(),
            source: queue(&self.source),
            intermediate: self.intermediate.as_ref().map(&queue),
            source_dlq: self.source_dlq.as_ref().map(&queue),
            annotation: queue(&self.annotation),
            final_dlq: queue(&self.final_dlq),
        }
    }
}

impl<'a, Q> Wiring for &'a Topology<Q> {
    type Queue = &'a Q;

    fn queue(&mut self, role: Role) -> Option<&'a Q> {
        match role {
            Role::Source => Some(&self.source),
            Role::IntermediateDlq => self.intermediate.as_ref(),
            Role::SourceDlq => self.source_dlq.as_ref(),
            Role::Blocked => None,
            Role::Annotation => Some(&self.annotation),
            Role::FinalDlq => Some(&self.final_dlq),
        }
    }

    fn queue_times(&mut self) -> Option<QueueTimes> {
        let retention = self.retry_loop.definition().source_retention();
        Some(QueueTimes { visibility_timeout: visibility_timeout(), retention })
    }

    fn batch_size(&mut self) -> Option<u16> {
        Some(self.batching.size.into())
    }
}

impl<Q: Queue + Clone> Topology<Q> {
    /// Creates the queues of a retry loop, for a policy with this number of attempts. The batching window extends the
    /// source queue's visibility timeout. If a queue cannot be created, the ones before it are deleted.
    ///
    /// # Errors
    /// The service's error.
    pub async fn create_queues<S: QueueService<Queue = Q>>(
        service: &S,
        prefix: &str,
        retry_loop: impl Into<RetryLoop>,
        max_attempts: u32,
        batching: Batching,
    ) -> Result<Self, EntryError> {
        let retry_loop = retry_loop.into();
        let mut created = BTreeMap::new();
        for needed in retry_loop.definition().queues(max_attempts) {
            let mut settings = queue_settings(&needed, &created);
            if needed.role == Role::Source {
                settings.visibility = visibility_with_window(batching.window);
            }
            match service.create_queue(&format!("{prefix}-{}", needed.name), &settings).await {
                Ok(queue) => created.insert(needed.role, queue),
                Err(error) => {
                    for queue in created.values() {
                        let _ = service.delete_queue(queue).await;
                    }
                    return Err(error);
                }
            };
        }
        let mut take = |role| created.remove(&role);
        let every = "every retry loop has this queue";
        Ok(Self {
            retry_loop,
            batching,
            resenders: Resenders::default(),
            source: take(Role::Source).expect(every),
            intermediate: take(Role::IntermediateDlq),
            source_dlq: take(Role::SourceDlq),
            annotation: take(Role::Annotation).expect(every),
            final_dlq: take(Role::FinalDlq).expect(every),
        })
    }

    /// Deletes the queues, each source before its dead-letter queue.
    ///
    /// # Errors
    /// The last error; the other queues are still deleted.
    pub async fn delete_queues<S: QueueService<Queue = Q>>(&self, service: &S) -> Result<(), EntryError> {
        let mut outcome = Ok(());
        for queue in self.all_queues() {
            outcome = service.delete_queue(queue).await.and(outcome);
        }
        outcome
    }

    /// Returns the number of messages in all queues, in any state.
    ///
    /// # Errors
    /// The service's error.
    pub async fn count_messages(&self) -> Result<u64, EntryError> {
        let mut waiting = 0;
        for queue in self.all_queues() {
            waiting += queue.depth().await?.total();
        }
        Ok(waiting)
    }

    /// Returns all queues, each source before its dead-letter queue.
    pub(crate) fn all_queues(&self) -> impl Iterator<Item = &Q> {
        Role::ALL.iter().copied().filter_map(|role| (&*self).queue(role))
    }
}

/// Returns the queues' visibility timeout. AWS recommends at least six times the function's timeout ("Configuring
/// Lambda event source mappings for SQS").
pub(super) fn visibility_timeout() -> VisibilitySeconds {
    visibility_with_window(Duration::ZERO)
}

/// Returns the visibility timeout with a batching window, during which messages also remain hidden.
fn visibility_with_window(batching_window: Duration) -> VisibilitySeconds {
    let seconds = 6 * INVOCATION_TIMEOUT.as_secs() + batching_window.as_secs();
    VisibilitySeconds::new(seconds).unwrap_or(VisibilitySeconds::MAX)
}

/// Returns a queue's settings; its DLQ must be in `created`.
fn queue_settings<Q: Queue>(needed: &NeededQueue, created: &BTreeMap<Role, Q>) -> QueueSettings {
    let redrive = needed.redrive.and_then(|redrive| {
        let target_arn = created.get(&redrive.to)?.arn().to_owned();
        Some(RedriveSettings { target_arn, max_receive_count: redrive.receives })
    });
    QueueSettings {
        visibility: visibility_timeout(),
        retention: needed.retention,
        redrive,
        tags: BTreeMap::from([("created-by".to_owned(), "redeliver-local".to_owned())]),
    }
}

#[cfg(test)]
mod vectors;
