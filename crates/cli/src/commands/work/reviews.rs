//! The hourly check for notices that no new dead letter triggers; in Lambda a rule invokes the function for it.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use redeliver_aws::Stop;
use redeliver_core::ports::{Clock, Notifier, ObjectStore, Observer, QueueSender};
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3600);
/// The time for one check, as long as the stack's function has.
const REVIEW_MAX: Duration = Duration::from_secs(30);

/// Checks once an hour until `stop` is requested.
pub(super) async fn review_hourly<Q, C, O, S, N>(
    annotator: &FinalDlqAnnotator<Q, C, O, S, N>,
    clock: &C,
    stop: &Stop,
) where
    Q: QueueSender,
    C: Clock,
    O: Observer,
    S: ObjectStore,
    N: Notifier,
{
    while !stop.is_requested() {
        select(pin!(clock.sleep(HOUR)), pin!(stop.requested())).await;
        if !stop.is_requested() {
            annotator.review_causes(&Uuid::new_v4().to_string(), clock.now() + REVIEW_MAX).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;
    use redeliver_core::archive::{Archive, Layout, Omit, Prefix};
    use redeliver_core::notices::{About, Notice, Notices};
    use redeliver_core::ports::EntryError;
    use redeliver_embedded::{BucketRequest, MemoryBucket};
    use redeliver_testing::functions::World;

    use super::*;

    struct Topic;

    impl Notifier for Topic {
        async fn publish(&self, _: &Notice) -> Result<(), EntryError> {
            Ok(())
        }
    }

    #[test]
    fn it_checks_once_an_hour_until_it_is_asked_to_stop() {
        let (world, bucket, stop) = (World::new(), MemoryBucket::default(), Stop::default());
        let clock = &world.clock;
        let deployment = "final-dlq".to_owned();
        let about = About { deployment: deployment.clone(), source: "s3://bucket/".to_owned() };
        let layout = Layout { prefix: Prefix::default(), deployment };
        let annotator = FinalDlqAnnotator {
            final_dlq: world.queue("final-dlq"),
            archive: Some(Archive { store: bucket.clone(), layout, omit: Omit::default() }),
            notices: Some(Notices::new(Topic, about)),
            clock: clock.clone(),
            observer: world.seen.clone(),
        };
        let stopping = async {
            clock.sleep(3 * HOUR + HOUR / 2).await;
            stop.request();
        };
        clock.block_on(join(review_hourly(&annotator, clock, &stop), stopping));
        let check = BucketRequest::List("causes/deployment=final-dlq/".to_owned());
        assert_eq!(bucket.requests(), vec![check; 3]);
    }
}
