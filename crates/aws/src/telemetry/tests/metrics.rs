use redeliver_core::failure::FailureClass;
use redeliver_core::failure::reason::DeadLetterReason;

use super::*;
use crate::telemetry::metrics::{EventReport, Measurement, Metric};

/// The names and values of all dimensions must be known in advance, since CloudWatch bills each combination.
#[test]
fn every_metric_and_dimension_value_is_listed() {
    let retries = [0, 1, 9, 10, 11, 100, 101, 1000].map(retry_scheduled_event);
    let kinds =
        [FailureClass::Transient, FailureClass::Permanent, FailureClass::Snooze, FailureClass::NotStarted]
            .map(|answer| {
                let mut event = handed_off_event(&"Http.Timeout".into());
                let Event::HandedOff { kind, .. } = &mut event else { unreachable!() };
                *kind = answer.as_str();
                event
            });
    let codes = DeadLetterReason::CODES.iter().map(|code| {
        let mut event = dead_lettered_event();
        let Event::DeadLettered { error_type, .. } = &mut event else { unreachable!() };
        *error_type = code;
        event
    });
    for event in retries.into_iter().chain(kinds).chain(codes).chain(all_events()) {
        let EventReport { by, metrics, .. } = EventReport::from_event(&event);
        let dimension = metrics[0].metric.dimension();
        assert_eq!(by.is_some(), dimension.is_some(), "{event:?}");
        if let (Some(value), Some(dimension)) = (by, dimension) {
            assert!(dimension.values.contains(&value), "{event:?}");
        }
        for Measurement { metric, .. } in metrics {
            assert!(Metric::ALL.contains(&metric), "{event:?}");
        }
    }
    let written: Vec<_> =
        all_events().iter().flat_map(|event| EventReport::from_event(event).metrics).collect();
    for metric in Metric::ALL {
        assert!(written.iter().any(|measured| measured.metric == *metric), "no event writes {metric:?}");
    }
}
