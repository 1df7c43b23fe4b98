//! A soak from beginning to end: fire, then healing, then the ledger.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use rand::RngExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::dice::Dice;
use super::history::{Content, Stage};
use super::ledger::balance;
use super::messages::{Sent, key_in, messages};
use super::poller::Poller;
use super::proxy::{Fault, Proxy};
use super::recorder::Recorder;
use super::report::Report;
use super::target::{Killer, TIMEOUT, Target};
use crate::ministack::Ministack;
use crate::runtime_api::Function;
use crate::settings::bundle;
use crate::topology::Topology;

/// Half of the message-processors send failed messages again themselves: as while a deployment changes its strategy.
fn is_direct(number: usize) -> bool {
    number % 2 == 1
}

/// What a soak is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// How many messages producers send.
    pub messages: usize,
    /// Decides what happens.
    pub seed: u64,
    /// It fails when it takes longer.
    pub limit: Duration,
}

/// Delays of 0 to 2 s; the ledger knows the numbers, too. A message that is held waits for minutes, so none is. What SQS
/// moved waits for 5, 10, 20 and 40 s.
const POLICY: &str = r#"{"circuit_breaker":false,"max_redrives":4,"max_attempts":5,"backoff":{"kind":"exponential","initial_delay_seconds":1,"rate":2,"max_delay_seconds":2,"jitter":"full"}}"#;
/// How long the functions wait for SQS at least, before they send again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Long enough for the target and two lost answers in a row.
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(13);
/// Of one mapping whose function makes one call at a time, and whose time is often too short for its batch: half of it is for the calls, and
/// that half must not be shorter than a call's timeout, by which the ledger knows what came too late.
const SHORT_TIMEOUT: Duration = Duration::from_secs(4);
/// Mappings of each function: the target is slow, so many wait for it at the same time.
const PROCESSORS: usize = 12;
const RETRIERS: usize = 6;
const ANNOTATORS: usize = 2;
/// Messages that have not ended, while more are sent: the emulator searches its queues from end to end.
const WAITING_MAX: usize = 1200;
/// In thousandths: then it has burned enough, and the stragglers may settle.
const ENDED_BEFORE_HEALING: usize = 985;
/// How long a killer waits for its victim to begin to work.
const LURKS: u32 = 100;
const LURK: Duration = Duration::from_millis(5);
/// Some thousand messages take two seconds.
const READING_MAX: Duration = Duration::from_secs(60);
/// Of the time limit, at most.
const BURNING_MAX: f64 = 0.7;

impl Soak {
    /// Runs it.
    ///
    /// # Panics
    /// If the emulator, the functions or the harness do not work.
    pub async fn run(self) -> Report {
        let start = Instant::now();
        let dice = Dice::new(self.seed);
        let emulator = Ministack::start();
        let topology = Topology::create(&emulator.endpoint_url(), "soak").await;
        let sent = messages(dice, self.messages);
        let recorder = Arc::new(Recorder::new(sent.clone()));
        let queues = [
            (topology.source.url.clone(), Stage::Source),
            (topology.intermediate.url.clone(), Stage::Intermediate),
            (topology.annotation.url.clone(), Stage::Annotation),
            (topology.final_dlq.url.clone(), Stage::Final),
        ];
        let plan = Box::new(move |request, invocation| Fault::at_random(dice, request, invocation));
        let proxy =
            Proxy::start(&emulator.endpoint_url(), queues, Arc::clone(&recorder), PATIENCE, plan).await;
        let pollers: Arc<OnceLock<Vec<Arc<Poller>>>> = Arc::default();
        let target = Target::start(Arc::clone(&recorder), dice, killer(&pollers)).await;
        let world = World { dice, topology, recorder, proxy, target };
        let pollers = pollers.get_or_init(|| world.pollers());

        let mut running = JoinSet::new();
        for poller in pollers {
            let poller = Arc::clone(poller);
            running.spawn(async move { poller.run().await });
        }
        let burned = world.burn(self, &sent, pollers, start).await;
        world.settle(start + self.limit).await;
        running.shutdown().await; // what they still work on, if it has not settled, is told as lost
        world.read_final_dlq().await;
        let (history, counts) = world.recorder.take();
        let balance = balance(&history);
        Report { soak: self, history, counts, balance, burned, took: start.elapsed() }
    }
}

struct World {
    dice: Dice,
    topology: Topology,
    recorder: Arc<Recorder>,
    proxy: Proxy,
    target: Target,
}

impl World {
    fn pollers(&self) -> Vec<Arc<Poller>> {
        let stages =
            [(Stage::Source, PROCESSORS), (Stage::Intermediate, RETRIERS), (Stage::Annotation, ANNOTATORS)];
        let stages = stages.into_iter().flat_map(|(stage, count)| std::iter::repeat_n(stage, count));
        stages.enumerate().map(|(number, from)| Arc::new(self.poller(number, from))).collect()
    }

    fn poller(&self, number: usize, from: Stage) -> Poller {
        let Topology { source, intermediate, annotation, final_dlq, client, .. } = &self.topology;
        let hurried = number == 0;
        let (queue, mut variables) = match from {
            Stage::Source => (
                source,
                vec![
                    ("TARGET", self.target.url_for(number)),
                    ("TARGET_TIMEOUT_SECONDS", TIMEOUT.as_secs().to_string()),
                    ("MAX_CONCURRENCY", if hurried { "1" } else { "10" }.to_owned()),
                    ("INTERMEDIATE_DLQ_URL", intermediate.url.clone()),
                    ("ANNOTATION_QUEUE_URL", annotation.url.clone()),
                    ("RETRY_POLICY", POLICY.to_owned()),
                ],
            ),
            Stage::Intermediate => (
                intermediate,
                vec![
                    ("SOURCE_QUEUE_URL", source.url.clone()),
                    ("INTERMEDIATE_DLQ_URL", intermediate.url.clone()),
                    ("ANNOTATION_QUEUE_URL", annotation.url.clone()),
                    ("RETRY_POLICY", POLICY.to_owned()),
                ],
            ),
            Stage::Annotation | Stage::Final => (annotation, vec![("FINAL_DLQ_URL", final_dlq.url.clone())]),
        };
        variables.push(("AWS_ENDPOINT_URL", self.proxy.endpoint_url().to_owned()));
        if from == Stage::Source && is_direct(number) {
            variables.push(("STRATEGY", "direct-resend".to_owned()));
            variables.push(("SOURCE_QUEUE_URL", source.url.clone()));
        }
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value));
        Poller {
            number,
            from,
            queue: queue.clone(),
            function: Function::new(from.function(), bundle(from.function()), variables),
            timeout: if hurried { SHORT_TIMEOUT } else { FUNCTION_TIMEOUT },
            client: client.clone(),
            recorder: Arc::clone(&self.recorder),
            dice: self.dice,
            current: Mutex::default(),
        }
    }

    /// Phase one: everything is sent under fire. How long it burned.
    async fn burn(&self, soak: Soak, sent: &[Sent], pollers: &[Arc<Poller>], start: Instant) -> Duration {
        let mut fire = JoinSet::new();
        let (dice, all) = (self.dice, pollers.to_vec());
        fire.spawn(async move { kill_at_random(dice, &all).await });
        let burned_down = start + soak.limit.mul_f64(BURNING_MAX);
        let mut waiting = sent;
        while !waiting.is_empty() {
            if sent.len() - waiting.len() > self.recorder.ended() + WAITING_MAX
                && Instant::now() < burned_down
            {
                sleep(Duration::from_millis(50)).await;
                continue;
            }
            let (batch, rest) = waiting.split_at(batch_length(waiting));
            send(&self.topology.client, &self.topology.source.url, batch).await;
            waiting = rest;
        }
        while self.recorder.ended() * 1000 < sent.len() * ENDED_BEFORE_HEALING && Instant::now() < burned_down
        {
            sleep(Duration::from_millis(100)).await;
        }
        fire.shutdown().await;
        self.recorder.heal();
        start.elapsed()
    }

    async fn read_final_dlq(&self) {
        // Copies without end would take without end, too.
        let Ok(messages) = timeout(READING_MAX, self.topology.final_records()).await else {
            return self.recorder.trouble(format!("the final DLQ cannot be read within {READING_MAX:?}"));
        };
        for message in messages {
            let content = Content::of(&message);
            match key_in(&content.body) {
                Some(key) => self.recorder.found(key, content),
                None => self.recorder.trouble(format!("nobody sent {}", content.body)),
            }
        }
    }

    /// Phase two: no faults and no kills any more, until nothing is left in the three inner queues and nothing is on its way.
    async fn settle(&self, give_up: Instant) {
        let Topology { source, intermediate, annotation, client, .. } = &self.topology;
        let mut quiet = 0;
        // A message is in some queue until its copy is confirmed in the next, but the counts are not taken at once.
        while quiet < 3 {
            let mut depths = Vec::new();
            for queue in [source, intermediate, annotation] {
                depths.push(queue.depth(client).await);
            }
            let empty = depths.iter().flatten().sum::<u64>() == 0 && self.recorder.is_quiet();
            quiet = if empty { quiet + 1 } else { 0 };
            if Instant::now() > give_up {
                let text = "not settled in time; visible, in flight and delayed in the source, intermediate and annotation queues";
                return self.recorder.trouble(format!("{text}: {depths:?}"));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// For the target, which is there before the mappings are.
fn killer(pollers: &Arc<OnceLock<Vec<Arc<Poller>>>>) -> Killer {
    let pollers = Arc::clone(pollers);
    Arc::new(move |number| {
        let poller = pollers.get().and_then(|pollers| pollers.get(number));
        poller.map(|poller| poller.kill());
    })
}

/// About every second some process in the middle of its work.
async fn kill_at_random(dice: Dice, pollers: &[Arc<Poller>]) {
    for number in 0_u64.. {
        let mut dice = dice.roll(("kill", number));
        sleep(Duration::from_millis(dice.random_range(500..1000))).await;
        // Each function as often as the others, though it has fewer processes or is sooner done.
        let stages = [Stage::Source, Stage::Intermediate, Stage::Annotation];
        let stage = stages[dice.random_range(0..stages.len())];
        let first = dice.random_range(0..pollers.len());
        let in_turn = || pollers.iter().cycle().skip(first).take(pollers.len());
        for _ in 0..LURKS {
            if in_turn().filter(|poller| poller.from == stage).any(|poller| poller.kill()) {
                break;
            }
            sleep(LURK).await;
        }
    }
}

/// As many as SQS takes at once.
fn batch_length(waiting: &[Sent]) -> usize {
    let mut bytes = 0;
    let fitting = waiting.iter().take(10).take_while(|sent| {
        let attributes = sent.content.attributes.iter();
        let of_attributes: usize =
            attributes.map(|(name, it)| name.len() + it.data_type.len() + it.value.len()).sum();
        bytes += sent.content.body.len() + of_attributes;
        bytes <= 1_048_576
    });
    fitting.count().max(1)
}

async fn send(client: &Client, queue_url: &str, batch: &[Sent]) {
    let entries = batch.iter().enumerate().map(|(index, Sent { content, .. })| {
        let mut entry = SendMessageBatchRequestEntry::builder().id(index.to_string());
        entry = entry.message_body(&content.body).set_message_group_id(content.group.clone());
        for (name, attribute) in &content.attributes {
            let value = MessageAttributeValue::builder().data_type(&attribute.data_type);
            let value = if attribute.data_type.starts_with("Binary") {
                value.binary_value(Blob::new(attribute.value.clone()))
            } else {
                value.string_value(attribute.text())
            };
            entry = entry.message_attributes(name, value.build().expect("its type is set"));
        }
        entry.build().expect("id and body are set")
    });
    let request = client.send_message_batch().queue_url(queue_url).set_entries(Some(entries.collect()));
    let answer = request.send().await.expect("the queue answers");
    assert!(answer.failed.is_empty(), "not sent: {:?}", answer.failed);
}
