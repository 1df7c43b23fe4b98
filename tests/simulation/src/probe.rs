//! A queue as seen by one actor: requests and responses take time, and the ledger observes their effects.

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::message::packing::Batch;
use redeliver_core::ports::{
    Depth, EntryError, EntryOutcome, Queue, QueueDepth, QueueSender, ReceiveOptions, UnreadableMessage,
    VisibilityControl,
};
use redeliver_embedded::EmbeddedQueue;

use crate::ledger::Actor;
use crate::world::SimulationWorld;

/// One actor's access to one queue.
#[derive(Clone, Copy)]
pub struct Probe<'a> {
    pub world: &'a SimulationWorld,
    pub queue: &'a EmbeddedQueue,
    pub actor: Actor,
}

impl QueueSender for Probe<'_> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.world.cross_network().await;
        let answer = self.queue.send_batch(batch).await;
        self.world.apply_changes(self.actor);
        self.world.cross_network().await;
        if !self.actor.has_deadlines() || !self.world.is_silent() {
            return answer;
        }
        match self.world.silent_fault().await {
            Some(fault) => answer.iter().map(|_| Err(EntryError::new(fault, "Silence"))).collect(),
            None => answer,
        }
    }
}

impl VisibilityControl for Probe<'_> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.world.cross_network().await;
        let answer = self.queue.change_visibility_batch(entries).await;
        self.world.apply_changes(self.actor);
        self.world.cross_network().await;
        answer
    }
}

impl QueueDepth for Probe<'_> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.queue.depth().await
    }
}

impl Queue for Probe<'_> {
    async fn receive(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        self.world.cross_network().await;
        let answer = self.queue.receive(request).await;
        self.world.apply_changes(self.actor);
        self.world.cross_network().await;
        answer
    }

    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        self.queue.take_unreadable()
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        self.world.cross_network().await;
        let answer = self.queue.delete_batch(handles).await;
        self.world.apply_changes(self.actor);
        self.world.cross_network().await;
        answer
    }

    fn arn(&self) -> &str {
        self.queue.arn()
    }

    fn url(&self) -> &str {
        self.queue.url()
    }
}
