//! An operator who returns final records to the source queue. The operator's program can also die.

use std::path::Path;
use std::time::Duration;

use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Content, OutgoingMessage};
use redeliver_core::ports::{Clock as _, Queue, QueueSender, ReceiveOptions};
use redeliver_dead_letters::redrive::{RedriveJob, RedriveJournal, RedriveLimits, RedrivePlan};
use redeliver_embedded::EmbeddedQueue;

use crate::event_source::run_until_death;
use crate::knobs::Operator;
use crate::ledger::Actor;
use crate::probe::Probe;
use crate::world::SimulationWorld;

/// Runs the operator until the end of the faults.
pub async fn run_operator(
    world: &SimulationWorld,
    schema: &MessageSchema,
    source: &EmbeddedQueue,
    final_dlq: &EmbeddedQueue,
) {
    let plan = RedrivePlan { max_generation: 3, schema: schema.clone(), ..RedrivePlan::default() };
    let probe = |queue, actor| Probe { world, queue, actor };
    let pause = world.knobs.fault_seconds / 4 + 1;
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let journal = folder.path().join("redrive.jsonl");
    loop {
        world.clock.sleep(Duration::from_secs(world.draw_up_to(pause))).await;
        if world.should_wind_down() || world.has_ended() {
            return;
        }
        let death = world.fault_strikes(world.knobs.process.dies).then(|| world.draw_up_to(60));
        match world.knobs.operator {
            Operator::None => return,
            Operator::Console => {
                let (from, to) = (probe(final_dlq, Actor::Console), probe(source, Actor::Console));
                run_until_death(move_back(&from, &to), death).await;
            }
            Operator::Redrive => {
                let (from, to) = (probe(final_dlq, Actor::Redrive), probe(source, Actor::Redrive));
                run_until_death(run_redrive(&from, &to, &plan, &journal), death).await;
            }
        }
    }
}

/// Moves up to ten messages as the SQS console does, with body and attributes unchanged.
async fn move_back(from: &Probe<'_>, to: &Probe<'_>) {
    let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
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
        for batch in pack_batches(std::slice::from_ref(&message)) {
            if to.send_batch(batch).await.iter().all(Result::is_ok) {
                from.delete_batch(std::slice::from_ref(&record.receipt_handle)).await;
            }
        }
    }
}

/// Runs the code of `redeliver redrive`. An interrupted run is continued by the next one.
async fn run_redrive(from: &Probe<'_>, to: &Probe<'_>, plan: &RedrivePlan, journal: &Path) {
    let Ok(mut journal) = RedriveJournal::open(journal, "simulation", from.arn(), to.arn()) else {
        return;
    };
    let redrive = RedriveJob {
        dlq: from,
        source: to,
        clock: &from.world.clock,
        plan,
        can_come_back: true,
        limits: RedriveLimits {
            rate: None,
            max: u64::MAX,
            stop_after_failures_percent: 100,
            watch: Duration::from_secs(15),
        },
        // Redriven copies can create further copies, so the redrive is interrupted if there are too many.
        interrupted: &|| from.world.should_wind_down(),
        progress: &|_| {},
    };
    let _the_next_run_continues = redrive.apply(&mut journal).await;
}
