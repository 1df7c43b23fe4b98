//! A queue, and what is sent to it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::pending;
use std::io::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::stream;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Queue as _, QueueService as _, QueueSettings, Receive};
use redeliver_embedded::{
    Action, EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, Injection, Scope, VirtualClock, When,
};

use crate::sending::journal::Journal;
use crate::sending::reader::Rules;
use crate::sending::sender::{Sender, Watcher};
use crate::sending::summary::Summary;

pub(super) struct World {
    pub(super) clock: VirtualClock,
    pub(super) sqs: EmbeddedSqs,
    pub(super) queue: EmbeddedQueue,
    pub(super) rate: Option<NonZeroU32>,
    pub(super) told: Told,
}

#[derive(Default)]
pub(super) struct Told(RefCell<Vec<String>>);

impl Watcher for Told {
    fn problem(&self, line: usize, what: &str) {
        self.0.borrow_mut().push(format!("{line}: {what}"));
    }

    fn warning(&self, line: Option<usize>, what: &str) {
        self.0.borrow_mut().push(format!("{line:?}: warning: {what}"));
    }

    fn progress(&self, _: u64, _: &Summary) {}
}

impl World {
    pub(super) fn new() -> Self {
        let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
        let sqs = EmbeddedSqs::new(clock.clone(), 1);
        let queue = clock.block_on(sqs.create_queue("source", &QueueSettings::default())).unwrap();
        Self { clock, sqs, queue, rate: None, told: Told::default() }
    }

    pub(super) fn fail(&self, scope: Scope, when: When, injection: Injection) {
        let rule = FaultRule { action: Action::SendMessageBatch, queue: None, scope, when, injection };
        self.sqs.set_faults(FaultPlan::new(1).with(rule));
    }

    pub(super) fn send(&self, input: &str, journal: &mut Journal<impl Write>) -> Summary {
        self.send_with(input, Rules::default(), Some(journal), pending())
    }

    pub(super) fn send_with(
        &self,
        input: &str,
        rules: Rules,
        journal: Option<&mut Journal<impl Write>>,
        stop: impl Future<Output = ()>,
    ) -> Summary {
        let sender = Sender { queue: &self.queue, clock: &self.clock, rate: self.rate, watcher: &self.told };
        let steps = stream::iter(rules.steps(input.as_bytes()));
        self.clock.block_on(sender.send(steps, journal, stop))
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.told.0.take()
    }

    /// The number of copies of each body in the queue.
    pub(super) fn bodies(&self) -> BTreeMap<String, usize> {
        self.sqs.set_faults(FaultPlan::default());
        let request = Receive { max_messages: 10, wait: Duration::ZERO, visibility: None };
        let mut bodies = BTreeMap::new();
        self.clock.block_on(async {
            loop {
                let messages = self.queue.receive(request).await.unwrap();
                if messages.is_empty() {
                    return;
                }
                for message in messages {
                    *bodies.entry(message.body).or_default() += 1;
                }
            }
        });
        bodies
    }
}

pub(super) fn message(number: usize) -> String {
    format!(r#"{{"metadata":{{"message_id":"00000000-0000-4000-8000-{number:012}"}},"data":{{}}}}"#)
}

/// Lines 1..=count, each a message of its own.
pub(super) fn messages(count: usize) -> String {
    (1..=count).map(|number| message(number) + "\n").collect()
}

pub(super) fn journal() -> Journal<Vec<u8>> {
    Journal::begin(Vec::new(), "arn").unwrap()
}
