//! Sends without a response: each may have created a copy, and each is counted.

use super::*;

impl World {
    fn fail_sends(&self, when: FaultTrigger, injection: Injection) {
        let (action, queue) = (SqsAction::SendMessageBatch, Some(self.source.arn().to_owned()));
        let rule = FaultRule { action, queue, scope: FaultScope::Entry, when, injection };
        self.sqs.set_faults(FaultPlan::new(3).with_rule(rule));
    }

    /// Returns the number of messages in the source queue that repeat an id.
    fn count_copies(&self) -> u64 {
        let sent = self.take(&self.source);
        let ids: std::collections::BTreeSet<_> =
            sent.iter().map(|message| message.body.split('"').nth(5).unwrap().to_owned()).collect();
        (sent.len() - ids.len()) as u64
    }
}

#[test]
fn a_send_retried_after_a_lost_response_counts_as_a_possible_copy() {
    let world = World::new((0..10).map(dead_letter).collect());
    world.fail_sends(FaultTrigger::Numbers((1..=5).collect()), Injection::LostResponse);
    let report = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((report.sent, report.possible_copies), (10, 5));
    assert_eq!((world.depths(), world.count_copies()), ((0, 15), 5));
}

#[test]
fn a_redrive_killed_with_lost_responses_reports_possible_copies() {
    const MESSAGES: usize = 12;
    let (mut deaths, mut copies_seen) = (0, 0);
    for polls in 1.. {
        let world = World::new((0..MESSAGES).map(dead_letter).collect());
        world.fail_sends(FaultTrigger::Chance(0.3), Injection::LostResponse);
        let first = {
            let plan = unfiltered_plan();
            let mut journal = world.journal();
            let slow = slow_queue(&world.source, &world.clock);
            let RedriveJob { dlq, clock, plan, can_come_back, limits, interrupted, progress, .. } =
                world.redrive(&plan);
            let redrive =
                RedriveJob { dlq, source: &slow, clock, plan, can_come_back, limits, interrupted, progress };
            let future = Box::pin(redrive.apply(&mut journal));
            world.clock.block_on(KilledFuture { future, polls })
        };
        world.clock.block_on(world.clock.sleep(Duration::from_secs(120)));
        world.sqs.set_faults(FaultPlan::new(3));
        let second = world.apply(&unfiltered_plan()).unwrap();
        assert_eq!(world.depths().0, 0, "killed after {polls} polls");
        let died = first.is_none();
        let reported_copies =
            first.map_or(0, |report| report.unwrap().possible_copies) + second.possible_copies;
        let copies = world.count_copies();
        assert!(
            copies <= reported_copies,
            "killed after {polls} polls: {copies} copies, {reported_copies} were reported"
        );
        copies_seen += copies;
        if !died {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 10 && copies_seen > 0, "{deaths} deaths, {copies_seen} copies: the test proves nothing");
}
