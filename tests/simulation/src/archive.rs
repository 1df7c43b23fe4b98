//! The final-dlq-annotator's bucket and topic: requests and responses take time, fail and get lost, and the ledger
//! observes their effects.

use std::time::Duration;

use redeliver_core::archive::{Archive, ArchiveLayout, OmitList, Prefix, deployment_name};
use redeliver_core::notices::{DeploymentInfo, Notice, Notices, Notifier};
use redeliver_core::ports::{Clock as _, EntryError, ObjectStore, Queue as _};
use redeliver_embedded::{EmbeddedQueue, Injection, MemoryBucket};
use redeliver_final_dlq_annotator::FinalDlqAnnotator;

use crate::knobs::ArchiveKnobs;
use crate::ledger::Actor;
use crate::probe::Probe;
use crate::world::{LedgerObserver, SimulationWorld, SkewedClock};

/// The prefix that all keys share.
pub const PREFIX: &str = "archive/";

/// A final-dlq-annotator in the simulation.
pub type SimulatedAnnotator<'a> =
    FinalDlqAnnotator<Probe<'a>, SkewedClock, LedgerObserver<'a>, SimulatedBucket<'a>, SimulatedTopic<'a>>;

/// Creates a final-dlq-annotator process, with the archive and the notices that the knobs specify.
pub fn new_annotator<'a>(
    world: &'a SimulationWorld,
    final_dlq: &'a EmbeddedQueue,
    clock: SkewedClock,
) -> SimulatedAnnotator<'a> {
    let archiving = world.knobs.archiving.as_ref();
    let deployment = deployment_name(final_dlq.url());
    let about = DeploymentInfo { deployment: deployment.clone(), source: format!("s3://bucket/{PREFIX}") };
    let prefix = Prefix::new(PREFIX).expect("a valid prefix");
    let archive = || Archive {
        store: SimulatedBucket { world },
        layout: ArchiveLayout { prefix, deployment },
        omit: OmitList::default(),
    };
    let topic =
        |_: &ArchiveKnobs| Notices::new(SimulatedTopic { world, process: world.next_environment() }, about);
    FinalDlqAnnotator {
        final_dlq: Probe { world, queue: final_dlq, actor: Actor::Annotator },
        archive: archiving.filter(|archiving| archiving.has_bucket).map(|_| archive()),
        notices: archiving.filter(|archiving| archiving.has_notices).map(topic),
        clock,
        observer: LedgerObserver(world),
    }
}

/// The bucket as one process sees it.
#[derive(Clone, Copy)]
pub struct SimulatedBucket<'a> {
    world: &'a SimulationWorld,
}

impl SimulatedBucket<'_> {
    async fn carry_out_request<T>(
        &self,
        carry_out: impl Future<Output = Result<T, EntryError>>,
    ) -> Result<T, EntryError> {
        let chances = self.world.knobs.archiving.as_ref().expect("a run without a bucket has none");
        let is_down = self.world.bucket_is_down();
        let is_refused = is_down || self.world.fault_strikes(chances.refused);
        simulate_request(self.world, chances, is_refused, carry_out).await
    }

    fn memory_bucket(&self) -> &MemoryBucket {
        &self.world.bucket
    }
}

/// Carries out a request with everything that can go wrong on the way there and back.
async fn simulate_request<T>(
    world: &SimulationWorld,
    chances: &ArchiveKnobs,
    is_refused: bool,
    carry_out: impl Future<Output = Result<T, EntryError>>,
) -> Result<T, EntryError> {
    world.cross_network().await;
    if is_refused {
        let refusals = [Injection::Throttled, Injection::Service, Injection::Sender];
        let which = usize::try_from(world.draw_up_to(2)).unwrap_or(0);
        return Err(refusals[which].to_error());
    }
    if world.fault_strikes(chances.request_lost) {
        world.clock.sleep(Duration::from_secs(world.draw_up_to(10))).await;
        return Err(Injection::LostRequest.to_error());
    }
    let answer = carry_out.await;
    world.cross_network().await;
    if world.fault_strikes(chances.answer_late) {
        // Half of the late responses come after the deadline.
        let most = 2000 * world.knobs.invocation_seconds;
        world.clock.sleep(Duration::from_millis(world.draw_up_to(most))).await;
    }
    if world.fault_strikes(chances.answer_never) {
        std::future::pending::<()>().await;
    }
    if world.fault_strikes(chances.answer_lost) {
        world.clock.sleep(Duration::from_secs(world.draw_up_to(10))).await;
        return Err(Injection::LostResponse.to_error());
    }
    answer
}

impl ObjectStore for SimulatedBucket<'_> {
    async fn create_object(&self, key: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        let carry_out = async {
            let is_new = self.memory_bucket().create_object(key, content.clone()).await?;
            self.world.lock_ledger().check_write(key, &content, is_new, self.world.clock.now());
            Ok(is_new)
        };
        self.carry_out_request(carry_out).await
    }
}

/// The topic as one process sees it.
#[derive(Clone, Copy)]
pub struct SimulatedTopic<'a> {
    world: &'a SimulationWorld,
    /// The process number.
    process: u64,
}

impl Notifier for SimulatedTopic<'_> {
    async fn publish(&self, notice: &Notice) -> Result<(), EntryError> {
        let Self { world, process } = *self;
        let _ends = NoticeRequest::begin(world);
        world.lock_ledger().begin_notice(process, notice, world.clock.now());
        let chances = world.knobs.archiving.as_ref().expect("a run without notices has no topic");
        let is_refused = world.fault_strikes(chances.notice_refused);
        simulate_request(world, chances, is_refused, async { Ok(()) }).await?;
        world.lock_ledger().record_published_notice(process, &notice.fingerprint, world.clock.now());
        Ok(())
    }
}

/// A request to publish a notice, from its start until it is answered or abandoned.
struct NoticeRequest<'a> {
    world: &'a SimulationWorld,
    invocation: Option<u64>,
}

impl<'a> NoticeRequest<'a> {
    fn begin(world: &'a SimulationWorld) -> Self {
        Self { world, invocation: world.lock_ledger().begin_notice_request(world.clock.now()) }
    }
}

impl Drop for NoticeRequest<'_> {
    fn drop(&mut self) {
        let Self { world, invocation } = self;
        if let Some(invocation) = invocation {
            world.lock_ledger().end_notice_request(*invocation, world.clock.now());
        }
    }
}
