//! The queues, with the redrive counts and retentions of the deployed stack.

use std::collections::BTreeMap;
use std::time::Duration;

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::ports::{EntryError, Queue, QueueService, QueueSettings, Redrive};

/// `maxReceiveCount` of a redrive policy is 1..=1000 ("CreateQueue", Amazon SQS API Reference).
const RECEIVES_MAX: u16 = 1000;

/// The functions' timeout.
pub(super) const INVOCATION_TIMEOUT: Duration = Duration::from_secs(30);
/// The source queue's retention.
const SOURCE_DAYS: u32 = 7;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Which queues there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All four.
    DelayedResend,
    /// No intermediate DLQ: the source queue counts the attempts.
    Visibility {
        /// Retries of the policy.
        max_attempts: u32,
    },
    /// The source is the retry queue of failed asynchronous invocations.
    AsyncRetry,
}

/// The queues of one retry loop.
#[derive(Clone, Debug)]
pub struct Topology<Q> {
    /// Where producers send; or Lambda, its records of failed invocations.
    pub source: Q,
    /// Where failed messages wait for the failed-message-processor, unless they stay on their queue.
    pub intermediate: Option<Q>,
    /// Where verdicts wait for the annotator.
    pub annotation: Q,
    /// Where final records are read.
    pub final_dlq: Q,
}

impl<Q: Queue + Clone> Topology<Q> {
    /// Creates the queues, a dead-letter queue before its source. Should one fail, those before it are deleted again.
    ///
    /// # Errors
    /// What the service answered.
    pub async fn create<S: QueueService<Queue = Q>>(
        service: &S,
        prefix: &str,
        layout: Layout,
    ) -> Result<Self, EntryError> {
        let mut created = Vec::new();
        match Self::create_all(service, prefix, layout, &mut created).await {
            Ok(topology) => Ok(topology),
            Err(error) => {
                for queue in &created {
                    let _ = service.delete_queue(queue).await;
                }
                Err(error)
            }
        }
    }

    async fn create_all<S: QueueService<Queue = Q>>(
        service: &S,
        prefix: &str,
        layout: Layout,
        created: &mut Vec<Q>,
    ) -> Result<Self, EntryError> {
        let mut create = async |name: &str, days: u32, redrive: Option<(&Q, u16)>| {
            let settings = settings(days, redrive.map(|(queue, count)| (queue.arn().to_owned(), count)));
            let queue = service.create_queue(&format!("{prefix}-{name}"), &settings).await?;
            created.push(queue.clone());
            Ok::<_, EntryError>(queue)
        };
        let final_dlq = create("final-dlq", 14, None).await?;
        // A hundred: a broken deployment must not dead-letter everything within the hour.
        let most_receives = match layout {
            Layout::DelayedResend | Layout::AsyncRetry => 100,
            // Ten more than the policy spends; SQS counts to 1000.
            Layout::Visibility { max_attempts } => {
                u16::try_from(max_attempts).unwrap_or(u16::MAX).min(RECEIVES_MAX - 20) + 10
            }
        };
        // A moved message brings its receives along. Ten failed annotations more: the raw message is better than none.
        let annotation = create("annotation", 14, Some((&final_dlq, most_receives + 10))).await?;
        let (source, intermediate) = match layout {
            Layout::DelayedResend => {
                let intermediate = create("intermediate-dlq", 14, Some((&annotation, most_receives))).await?;
                // One: what the message processor could not hand off itself is retried by the policy, not at once.
                (create("source", SOURCE_DAYS, Some((&intermediate, 1))).await?, Some(intermediate))
            }
            Layout::Visibility { .. } => {
                (create("source", SOURCE_DAYS, Some((&annotation, most_receives))).await?, None)
            }
            Layout::AsyncRetry => (create("retry", 14, Some((&annotation, most_receives))).await?, None),
        };
        Ok(Self { source, intermediate, annotation, final_dlq })
    }

    /// Deletes the queues, a source before its dead-letter queue.
    ///
    /// # Errors
    /// The last failure; the others are deleted all the same.
    pub async fn delete<S: QueueService<Queue = Q>>(&self, service: &S) -> Result<(), EntryError> {
        let mut outcome = Ok(());
        for queue in self.all() {
            outcome = service.delete_queue(queue).await.and(outcome);
        }
        outcome
    }

    /// Messages in all queues, whatever their state.
    ///
    /// # Errors
    /// What the service answered.
    pub async fn waiting(&self) -> Result<u64, EntryError> {
        let mut waiting = 0;
        for queue in self.all() {
            waiting += queue.depth().await?.total();
        }
        Ok(waiting)
    }

    fn all(&self) -> impl Iterator<Item = &Q> {
        [Some(&self.source), self.intermediate.as_ref(), Some(&self.annotation), Some(&self.final_dlq)]
            .into_iter()
            .flatten()
    }
}

/// How long the source queue keeps a message.
pub(super) fn source_retention() -> Duration {
    DAY * SOURCE_DAYS
}

/// "Configuring Lambda event source mappings for SQS": at least six times the function's timeout.
pub(super) fn visibility_timeout() -> VisibilitySeconds {
    VisibilitySeconds::new(6 * INVOCATION_TIMEOUT.as_secs()).unwrap_or(VisibilitySeconds::MAX)
}

fn settings(days: u32, redrive: Option<(String, u16)>) -> QueueSettings {
    QueueSettings {
        visibility: visibility_timeout(),
        retention: DAY * days,
        redrive: redrive.map(|(target_arn, max_receive_count)| Redrive { target_arn, max_receive_count }),
        tags: BTreeMap::from([("created-by".to_owned(), "redeliver-local".to_owned())]),
    }
}

#[cfg(test)]
mod vectors;
