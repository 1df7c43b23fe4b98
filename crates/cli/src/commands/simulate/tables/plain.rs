//! Compares plain SQS with the policies, and shows when plain SQS is enough.

use std::cmp::Ordering;

use redeliver_sim::planner::{DelayPercentiles, Forecast, ForecastOutcome, PlainForecast, PolicyForecast};

use super::super::arguments::plain_queue_name;
use super::rank_policies;
use super::section::{Section, format_dollars, format_drain_time, format_rounded_span};
use redeliver_operator::terminal::escape::escape_line;
use redeliver_operator::terminal::units::{format_count, format_span, group_digits};

/// Returns a table with one row per policy and per plain queue, or `None` without a plain queue.
pub(super) fn plain_sqs_section(forecast: &Forecast) -> Option<Section> {
    let policies =
        forecast.policies.iter().map(|policy| outcome_row(escape_line(&policy.name), &policy.outcome));
    let plain =
        forecast.plain_sqs.iter().map(|plain| outcome_row(plain_queue_name(plain.plain), &plain.outcome));
    let rows = policies.chain(plain).collect();
    let columns = ["", "dead", "wasted", "done after", "dollars per million", "median", "p90", "p99"];
    let best = *rank_policies(forecast).first()?;
    let sentences: Vec<_> =
        forecast.plain_sqs.iter().map(|plain| describe_plain_queue(best, plain)).collect();
    (!sentences.is_empty()).then(|| Section {
        title: "Plain SQS with the same messages and target, measured".to_owned(),
        names: 1,
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        note: Some(sentences.join("\n")),
    })
}

fn outcome_row(name: String, outcome: &ForecastOutcome) -> Vec<String> {
    let measured = &outcome.measured;
    let delays = measured.delay_seconds.map(|DelayPercentiles { p50, p90, p99, .. }| [p50, p90, p99]);
    let delays = delays.map_or([(); 3].map(|()| "–".to_owned()), |each| each.map(format_rounded_span));
    let [dead, wasted] = [measured.dead_lettered.values().sum(), measured.wasted.total()].map(group_digits);
    let done = format_drain_time(measured);
    let price = format_dollars(outcome.per_million.total_dollars);
    [name, dead, wasted, done, price].into_iter().chain(delays).collect()
}

/// Compares a plain queue with a policy. The queue is enough if it processes all messages.
fn describe_plain_queue(policy: &PolicyForecast, plain: &PlainForecast) -> String {
    let [own, other] = [&policy.outcome, &plain.outcome];
    let [kept, lost] = [own, other].map(|outcome| outcome.measured.unprocessed_count());
    let (name, policy, sent) =
        (plain_queue_name(plain.plain), escape_line(&policy.name), other.measured.sent);
    let share = format!("{} of {}", group_digits(lost), format_count(sent, "message"));
    let result = match lost.cmp(&kept) {
        Ordering::Greater => {
            let kept = group_digits(kept);
            return format!(
                "{name} is not enough here: it does not process {share}; {policy} does not process {kept}."
            );
        }
        _ if lost == 0 => format!("{name} is enough here: it loses nothing,"),
        Ordering::Equal => format!("{name} loses as many here, {share}: it"),
        Ordering::Less => {
            format!("{name} loses fewer here, {share}, and {policy} {}: it", group_digits(kept))
        }
    };
    let price = other.per_million.total_dollars - own.per_million.total_dollars;
    let price = format!("{} {}", format_dollars(price.abs()), if price < 0.0 { "less" } else { "more" });
    let difference = |[own, other]: [u64; 2], shown: fn(u64) -> String, [more, less, same]: [&str; 3]| {
        let by = shown(own.abs_diff(other));
        match other.cmp(&own) {
            Ordering::Greater => format!("{by} {more}"),
            Ordering::Less => format!("{by} {less}"),
            Ordering::Equal => same.to_owned(),
        }
    };
    let wasted = [own, other].map(|outcome| outcome.measured.wasted.total());
    let wasted = difference(wasted, group_digits, ["more", "fewer", "as many"]);
    let wasted = format!("wastes {wasted} calls to the target");
    let costs = format!("{result} costs {price} per million than {policy}");
    // If no message was processed, being done sooner only means that the messages died sooner.
    if [own, other].iter().any(|outcome| outcome.measured.processed == 0) {
        return format!("{costs} and {wasted}.");
    }
    let done = [own, other].map(|outcome| outcome.measured.drain_seconds);
    let done = difference(done, format_span, ["later", "sooner", "as soon"]);
    format!("{costs}, {wasted}, and is done {done}.")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redeliver_core::limits::VisibilitySeconds;
    use redeliver_core::policy::Policy;
    use redeliver_sim::cost::{Architecture, Prices};
    use redeliver_sim::planner::{PlainSqs, Scenario, TargetFault};

    use super::*;

    /// Builds the table for twenty retries in twenty minutes and for two plain queues, in an outage of this length.
    fn table(outage: u64, over: u64) -> Section {
        let policy = r#"{"max_attempts":20,"circuit_breaker":false,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
        let [outage, over] = [outage, over].map(Duration::from_secs);
        let fault = TargetFault::Outage(outage);
        let scenario = Scenario { messages: 60, fault, over, ..Scenario::default() };
        let mut forecast = Forecast::new(scenario, 604_800, Architecture::Arm64, Prices::shipped_list());
        forecast.measure_policy("retries".to_owned(), &Policy::from_json(policy).unwrap(), &|_| {}).unwrap();
        for (visibility, receives) in [(180, 2), (43_200, 100)] {
            let visibility = VisibilitySeconds::new(visibility).unwrap();
            forecast.measure_plain(PlainSqs { visibility, receives }, &|_| {}).unwrap();
        }
        let section = plain_sqs_section(&forecast).unwrap();
        assert_eq!(
            section.rows.iter().map(|row| &row[0]).collect::<Vec<_>>(),
            ["retries", "SQS 3m,2", "SQS 12h,100"]
        );
        section
    }

    fn note(outage: u64, over: u64) -> Vec<String> {
        table(outage, over).note.unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn plain_sqs_is_enough_if_it_loses_nothing() {
        assert_eq!(
            note(60, 60),
            [
                "SQS 3m,2 is enough here: it loses nothing, costs $0.56 less per million than retries, wastes as many \
                 calls to the target, and is done 1m 58s later.",
                "SQS 12h,100 is enough here: it loses nothing, costs $0.55 less per million than retries, wastes as \
                 many calls to the target, and is done 11h 58m 58s later."
            ]
        );
    }

    #[test]
    fn plain_sqs_that_loses_more_is_not_enough() {
        let [few, many] = &note(900, 900)[..] else { panic!("expected one sentence per queue") };
        assert_eq!(
            few,
            "SQS 3m,2 is not enough here: it does not process 49 of 60 messages; retries does not process 0."
        );
        assert!(many.starts_with("SQS 12h,100 is enough here: it loses nothing, costs "), "{many}");
    }

    /// A queue that loses everything must not look better because it finishes sooner.
    #[test]
    fn plain_sqs_that_loses_everything_is_not_enough_and_has_no_drain_time() {
        let table = table(7200, 60);
        assert_eq!(table.rows.iter().map(|row| &*row[3]).collect::<Vec<_>>(), ["–", "–", "10h 0m 59s"]);
        let note = table.note.unwrap();
        assert_eq!(
            note.lines().next(),
            Some(
                "SQS 3m,2 loses as many here, 60 of 60 messages: it costs $46.81 less per million than retries and \
                 wastes 1,140 fewer calls to the target."
            )
        );
    }
}
