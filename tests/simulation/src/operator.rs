//! An operator who sends final records back, and whose program dies, too.

use std::path::Path;
use std::time::Duration;

use redeliver_core::message::packing::pack;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Content, OutgoingMessage};
use redeliver_core::ports::{Clock as _, Queue, QueueSender, Receive};
use redeliver_dead_letters::redrive::{Journal, Limits, Plan, Redrive};
use redeliver_embedded::EmbeddedQueue;

use crate::event_source::dying;
use crate::knobs::Operator;
use crate::ledger::Actor;
use crate::probe::Probe;
use crate::world::World;

/// Works until the end of the faults.
pub async fn operate(
    world: &World,
    schema: &MessageSchema,
    source: &EmbeddedQueue,
    final_dlq: &EmbeddedQueue,
) {
    let plan = Plan { max_generation: 3, schema: schema.clone(), ..Plan::default() };
    let probe = |queue, actor| Probe { world, queue, actor };
    let pause = world.knobs.fault_seconds / 4 + 1;
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let journal = folder.path().join("redrive.jsonl");
    loop {
        world.clock.sleep(Duration::from_secs(world.up_to(pause))).await;
        if world.is_tired() || world.is_over() {
            return;
        }
        let death = world.strikes(world.knobs.process.dies).then(|| world.up_to(60));
        match world.knobs.operator {
            Operator::None => return,
            Operator::Console => {
                let (from, to) = (probe(final_dlq, Actor::Console), probe(source, Actor::Console));
                dying(move_back(&from, &to), death).await;
            }
            Operator::Redrive => {
                let (from, to) = (probe(final_dlq, Actor::Redrive), probe(source, Actor::Redrive));
                dying(redrive(&from, &to, &plan, &journal), death).await;
            }
        }
    }
}

/// Moves a message like the SQS console: body and attributes unchanged.
async fn move_back(from: &Probe<'_>, to: &Probe<'_>) {
    let request = Receive { max_messages: 10, wait: Duration::ZERO, visibility: None };
    let Ok(records) = from.receive(request).await else {
        return;
    };
    for record in records {
        let content = Content {
            body: record.body,
            attributes: record.attributes,
            message_group_id: record.message_group_id,
            trace_header: record.trace_header,
            ..Content::default()
        };
        let Ok(message) = OutgoingMessage::new(content) else {
            continue;
        };
        for batch in pack(std::slice::from_ref(&message)) {
            if to.send_batch(batch).await.iter().all(Result::is_ok) {
                from.delete_batch(std::slice::from_ref(&record.receipt_handle)).await;
            }
        }
    }
}

/// Runs the program's own code. The rest is left for the next time.
async fn redrive(from: &Probe<'_>, to: &Probe<'_>, plan: &Plan, journal: &Path) {
    let Ok(mut journal) = Journal::open(journal, "simulation", from.arn(), to.arn()) else {
        return;
    };
    let redrive = Redrive {
        dlq: from,
        source: to,
        clock: &from.world.clock,
        plan,
        can_come_back: true,
        limits: Limits {
            rate: None,
            max: u64::MAX,
            stop_after_failures_percent: 100,
            watch: Duration::from_secs(15),
        },
        // Copies create copies here, too.
        interrupted: &|| from.world.is_tired(),
        progress: &|_| {},
    };
    let _a_later_one_goes_on = redrive.apply(&mut journal).await;
}
