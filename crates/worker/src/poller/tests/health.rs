//! The health of pollers: long batches, idle queues, and several functions.

use super::*;

impl World {
    fn health_summary(&self) -> (bool, u64, usize) {
        let report = self.health.health_report(self.clock.now());
        let function = &report.functions[0];
        assert_eq!(report.healthy, function.healthy || self.stop.is_requested());
        (report.healthy, function.seconds_since_poll, function.batches_in_flight)
    }

    /// Runs a poller with a time limit of 15 minutes per batch, concurrently with `meanwhile`.
    fn run_with_long_limit<F: Function>(&self, function: F, meanwhile: impl Future<Output = ()>) {
        let mut poller = self.poller(1, function);
        poller.limits.invocation = Duration::from_secs(900);
        let meanwhile = async {
            meanwhile.await;
            self.stop.request();
        };
        self.clock.block_on(join(poller.run_until_stop(&self.stop), meanwhile));
    }
}

#[test]
fn a_poller_is_healthy_during_and_after_a_long_batch() {
    let world = World::new();
    world.run_with_long_limit(world.recording_function(200), async {
        world.send(&["a"]).await;
        world.sleep_seconds(61).await;
        assert_eq!(world.health_summary(), (true, 61, 1));
        world.sleep_seconds(138).await;
        assert_eq!(world.health_summary(), (true, 199, 1));
        world.sleep_seconds(16).await;
        assert_eq!(
            world.health_summary(),
            (true, 15, 0),
            "the batch ended at second 200; a long poll is under way"
        );
    });
    assert_eq!(world.remaining_messages(), 0);
}

#[test]
fn a_poller_is_unhealthy_a_minute_after_its_last_poll() {
    for function in ["that ends", "that is broken off"] {
        let world = World::new();
        let later = (2..=100).collect();
        world.inject_faults(
            SqsAction::ReceiveMessage,
            FaultScope::Request,
            FaultTrigger::Numbers(later),
            Injection::Throttled,
        );
        let ends = function == "that ends";
        let function = BatchFunction(|_| async {
            if ends {
                world.sleep_seconds(900).await;
            } else {
                pending::<()>().await;
            }
            Vec::new()
        });
        world.run_with_long_limit(function, async {
            world.send(&["a"]).await;
            world.sleep_seconds(899).await;
            assert_eq!(world.health_summary(), (true, 899, 1));
            world.sleep_seconds(61).await;
            assert_eq!(world.health_summary(), (true, 60, 0));
            world.sleep_seconds(1).await;
            assert_eq!(world.health_summary(), (false, 61, 0));
        });
    }
}

#[test]
fn an_idle_poller_is_healthy() {
    let world = World::new();
    world.run_poller(world.recording_function(0), async {
        world.clock.sleep(Duration::from_millis(500)).await;
        for second in 0..200 {
            assert_eq!(world.health_summary(), (true, second % 20, 0), "second {second}");
            world.sleep_seconds(1).await;
        }
    });
}

#[test]
fn an_unhealthy_function_makes_the_process_unhealthy() {
    let mut world = World::new();
    let other = Arc::new(Heartbeat::new("other", world.clock.now()));
    world.health.pollers.push(Arc::clone(&other));
    let later = world.clock.now() + Duration::from_secs(61);
    let healthy = |world: &World| {
        let report = world.health.health_report(later);
        (report.healthy, report.functions.iter().map(|function| function.healthy).collect::<Vec<_>>())
    };
    other.record_poll(later);
    assert_eq!(healthy(&world), (false, vec![false, true]));
    world.health.pollers.swap(0, 1);
    assert_eq!(healthy(&world), (false, vec![true, false]));
    world.health.pollers[1].record_poll(later);
    assert_eq!(healthy(&world), (true, vec![true, true]));
}
