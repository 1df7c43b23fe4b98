//! The final-dlq-annotator's bucket and topic: requests and answers take time, fail and get lost, and the ledger sees
//! their effects.

use std::time::Duration;

use redeliver_core::archive::{Archive, Layout, Omit, Prefix, deployment_of};
use redeliver_core::notices::{About, Notice, Notices, Notifier};
use redeliver_core::ports::{Clock as _, EntryError, ObjectStore, Queue as _};
use redeliver_embedded::{EmbeddedQueue, Injection, MemoryBucket};
use redeliver_final_dlq_annotator::FinalDlqAnnotator;

use crate::knobs::Archiving;
use crate::ledger::Actor;
use crate::probe::Probe;
use crate::world::{SkewedClock, Witness, World};

/// The beginning of all keys.
pub const PREFIX: &str = "archive/";

/// A final-dlq-annotator of the simulation.
pub type Annotator<'a> = FinalDlqAnnotator<Probe<'a>, SkewedClock, Witness<'a>, Bucket<'a>, Topic<'a>>;

/// A new process of the final-dlq-annotator, with an archive and notices as the knobs say.
pub fn annotator<'a>(world: &'a World, final_dlq: &'a EmbeddedQueue, clock: SkewedClock) -> Annotator<'a> {
    let archiving = world.knobs.archiving.as_ref();
    let deployment = deployment_of(final_dlq.url());
    let about = About { deployment: deployment.clone(), source: format!("s3://bucket/{PREFIX}") };
    let prefix = Prefix::new(PREFIX).expect("it is a prefix");
    let archive =
        || Archive { store: Bucket { world }, layout: Layout { prefix, deployment }, omit: Omit::default() };
    let topic = |_: &Archiving| Notices::new(Topic { world, process: world.next_environment() }, about);
    FinalDlqAnnotator {
        final_dlq: Probe { world, queue: final_dlq, actor: Actor::Annotator },
        archive: archiving.filter(|archiving| archiving.has_bucket).map(|_| archive()),
        notices: archiving.filter(|archiving| archiving.has_notices).map(topic),
        clock,
        observer: Witness(world),
    }
}

/// The bucket for one process.
#[derive(Clone, Copy)]
pub struct Bucket<'a> {
    world: &'a World,
}

impl Bucket<'_> {
    async fn request<T>(
        &self,
        carry_out: impl Future<Output = Result<T, EntryError>>,
    ) -> Result<T, EntryError> {
        let chances = self.world.knobs.archiving.as_ref().expect("a run without a bucket has none");
        let is_down = self.world.bucket_is_down();
        let is_refused = is_down || self.world.strikes(chances.refused);
        on_the_way(self.world, chances, is_refused, carry_out).await
    }

    fn objects(&self) -> &MemoryBucket {
        &self.world.bucket
    }
}

/// A request, its effect and its answer, with all that can go wrong.
async fn on_the_way<T>(
    world: &World,
    chances: &Archiving,
    is_refused: bool,
    carry_out: impl Future<Output = Result<T, EntryError>>,
) -> Result<T, EntryError> {
    world.travel().await;
    if is_refused {
        let refusals = [Injection::Throttled, Injection::Service, Injection::Sender];
        let which = usize::try_from(world.up_to(2)).unwrap_or(0);
        return Err(refusals[which].error());
    }
    if world.strikes(chances.request_lost) {
        world.clock.sleep(Duration::from_secs(world.up_to(10))).await;
        return Err(Injection::LostRequest.error());
    }
    let answer = carry_out.await;
    world.travel().await;
    if world.strikes(chances.answer_late) {
        // Beyond the deadline, every other time.
        let most = 2000 * world.knobs.invocation_seconds;
        world.clock.sleep(Duration::from_millis(world.up_to(most))).await;
    }
    if world.strikes(chances.answer_never) {
        std::future::pending::<()>().await;
    }
    if world.strikes(chances.answer_lost) {
        world.clock.sleep(Duration::from_secs(world.up_to(10))).await;
        return Err(Injection::LostAnswer.error());
    }
    answer
}

impl ObjectStore for Bucket<'_> {
    async fn create(&self, key: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        let carry_out = async {
            let is_new = self.objects().create(key, content.clone()).await?;
            self.world.ledger().written(key, &content, is_new, self.world.clock.now());
            Ok(is_new)
        };
        self.request(carry_out).await
    }
}

/// The topic for one process.
#[derive(Clone, Copy)]
pub struct Topic<'a> {
    world: &'a World,
    /// The number of the process.
    process: u64,
}

impl Notifier for Topic<'_> {
    async fn publish(&self, notice: &Notice) -> Result<(), EntryError> {
        let Self { world, process } = *self;
        let _ends = NoticeWork::begin(world);
        world.ledger().notice_begins(process, notice, world.clock.now());
        let chances = world.knobs.archiving.as_ref().expect("a run without notices has no topic");
        let is_refused = world.strikes(chances.notice_refused);
        on_the_way(world, chances, is_refused, async { Ok(()) }).await?;
        world.ledger().notice_published(process, &notice.fingerprint, world.clock.now());
        Ok(())
    }
}

/// A request that is made for a notice, until it is answered or given up.
struct NoticeWork<'a> {
    world: &'a World,
    invocation: Option<u64>,
}

impl<'a> NoticeWork<'a> {
    fn begin(world: &'a World) -> Self {
        Self { world, invocation: world.ledger().notice_work_begins(world.clock.now()) }
    }
}

impl Drop for NoticeWork<'_> {
    fn drop(&mut self) {
        let Self { world, invocation } = self;
        if let Some(invocation) = invocation {
            world.ledger().notice_work_ends(*invocation, world.clock.now());
        }
    }
}
