//! A simulated queue and the messages sent to it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::pending;
use std::io::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::stream;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Queue as _, QueueService as _, QueueSettings, ReceiveOptions};
use redeliver_embedded::{
    EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction,
    VirtualClock,
};

use crate::sending::journal::SendJournal;
use crate::sending::reader::LineRules;
use crate::sending::sender::{FileSender, Watcher};
use crate::sending::summary::Summary;

pub(super) struct World {
    pub(super) clock: VirtualClock,
    pub(super) sqs: EmbeddedSqs,
    pub(super) queue: EmbeddedQueue,
    pub(super) rate: Option<NonZeroU32>,
    pub(super) reported: WatcherLog,
}

#[derive(Default)]
pub(super) struct WatcherLog(RefCell<Vec<String>>);

impl Watcher for WatcherLog {
    fn report_problem(&self, line: usize, what: &str) {
        self.0.borrow_mut().push(format!("{line}: {what}"));
    }

    fn report_warning(&self, line: Option<usize>, what: &str) {
        self.0.borrow_mut().push(format!("{line:?}: warning: {what}"));
    }

    fn report_progress(&self, _: u64, _: &Summary) {}
}

impl World {
    pub(super) fn new() -> Self {
        let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
        let sqs = EmbeddedSqs::new(clock.clone(), 1);
        let queue = clock.block_on(sqs.create_queue("source", &QueueSettings::default())).unwrap();
        Self { clock, sqs, queue, rate: None, reported: WatcherLog::default() }
    }

    pub(super) fn inject_fault(&self, scope: FaultScope, when: FaultTrigger, injection: Injection) {
        let rule = FaultRule { action: SqsAction::SendMessageBatch, queue: None, scope, when, injection };
        self.sqs.set_faults(FaultPlan::new(1).with_rule(rule));
    }

    pub(super) fn send(&self, input: &str, journal: &mut SendJournal<impl Write>) -> Summary {
        self.send_with_rules(input, LineRules::default(), Some(journal), pending())
    }

    pub(super) fn send_with_rules(
        &self,
        input: &str,
        rules: LineRules,
        journal: Option<&mut SendJournal<impl Write>>,
        stop: impl Future<Output = ()>,
    ) -> Summary {
        let sender =
            FileSender { queue: &self.queue, clock: &self.clock, rate: self.rate, watcher: &self.reported };
        let steps = stream::iter(rules.read_steps(input.as_bytes()));
        self.clock.block_on(sender.send(steps, journal, stop))
    }

    pub(super) fn take_problems(&self) -> Vec<String> {
        self.reported.0.take()
    }

    /// Empties the queue and returns the number of copies of each body.
    pub(super) fn drain_bodies(&self) -> BTreeMap<String, usize> {
        self.sqs.set_faults(FaultPlan::default());
        let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
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

/// Returns lines 1..=count, each with a different message.
pub(super) fn messages(count: usize) -> String {
    (1..=count).map(|number| message(number) + "\n").collect()
}

pub(super) fn journal() -> SendJournal<Vec<u8>> {
    SendJournal::begin(Vec::new(), "arn").unwrap()
}
