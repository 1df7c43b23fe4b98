//! Several runs with one journal, which shows the work of each.

use super::*;

/// Returns the journal entries, each with its kind.
pub(super) fn journal_lines(world: &World) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(&world.journal).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.map(|entry: serde_json::Map<_, _>| entry.into_iter().next().unwrap()).collect()
}

pub(super) fn count_entries(lines: &[(String, Value)], kind: &str) -> u64 {
    lines.iter().filter(|(found, _)| found == kind).count() as u64
}

#[test]
fn the_journal_separates_a_killed_run_from_the_next_one() {
    const MESSAGES: u64 = 15;
    let mut deaths = 0;
    for polls in 1.. {
        let world = World::new((0..MESSAGES as usize).map(dead_letter).collect());
        let died = {
            let plan = unfiltered_plan();
            let mut journal = world.journal();
            let (dlq, source) =
                (slow_queue(&world.dlq, &world.clock), slow_queue(&world.source, &world.clock));
            let RedriveJob { clock, plan, can_come_back, limits, interrupted, progress, .. } =
                world.redrive(&plan);
            let redrive = RedriveJob {
                dlq: &dlq,
                source: &source,
                clock,
                plan,
                can_come_back,
                limits,
                interrupted,
                progress,
            };
            let future = Box::pin(redrive.apply(&mut journal));
            world.clock.block_on(KilledFuture { future, polls }).is_none()
        };
        world.clock.block_on(world.clock.sleep(Duration::from_secs(120)));
        let second = world.apply(&unfiltered_plan()).unwrap();
        assert_eq!(
            RedriveOutcome::from_report(&second, u64::MAX),
            RedriveOutcome::Done,
            "killed after {polls} polls: {second:?}"
        );

        let lines = journal_lines(&world);
        let run_starts: Vec<_> =
            lines.iter().enumerate().filter(|(_, (kind, _))| kind == "run").map(|(at, _)| at).collect();
        let [_, second_start] = run_starts[..] else { panic!("killed after {polls} polls: {run_starts:?}") };
        let (first, of_second) = lines.split_at(second_start);
        assert_eq!(count_entries(of_second, "sent"), second.sent, "killed after {polls} polls");
        assert_eq!(count_entries(first, "sent") + second.sent, MESSAGES, "killed after {polls} polls");
        assert_eq!(count_entries(&lines, "deleted"), MESSAGES, "killed after {polls} polls");
        assert_eq!(count_entries(first, "ended"), u64::from(!died), "killed after {polls} polls");
        let (kind, ended) = lines.last().unwrap();
        let reported = serde_json::json!({ "sent": second.sent, "not_deleted": 0, "exit_code": 0 });
        assert_eq!((kind.as_str(), ended), ("ended", &reported));
        if !died {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 20, "it died only {deaths} times");
}

#[test]
fn a_failed_message_from_a_killed_run_is_sent_by_the_next_run() {
    let world = World::new((0..60).map(dead_letter).collect());
    let plan = unfiltered_plan();
    let killed = {
        let mut journal = world.journal();
        let interrupted = std::cell::Cell::new(false);
        let is_interrupted = || interrupted.get();
        let progress = |progress| interrupted.set(interrupted.get() || progress == RedriveProgress::Sent(50));
        let redrive =
            RedriveJob { interrupted: &is_interrupted, progress: &progress, ..world.redrive(&plan) };
        world.clock.block_on(redrive.apply(&mut journal)).unwrap()
    };
    assert_eq!((killed.sent, killed.early_end), (50, Some(EarlyEnd::Interrupted)));
    // All of them fail permanently, and no run has counted that.
    let failed = world.take(&world.source);
    world.clock.block_on(world.resend(&world.dlq, failed, 0));
    let next = world.apply(&plan).unwrap();
    assert_eq!((next.sent, next.returned_count(), next.early_end), (60, 0, None));
    assert_eq!(world.depths(), (0, 60));
}
