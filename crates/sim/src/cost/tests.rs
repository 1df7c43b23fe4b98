//! Computes the figures in the docs and asserts that each page contains them.

use std::time::Duration;

use indicatif::HumanCount;
use redeliver_core::events::Event;
use redeliver_core::limits::RetryDelay;
use redeliver_core::message::Timestamp;
use redeliver_core::policy::Policy;
use redeliver_core::strategy::Strategy;
use redeliver_embedded::VirtualClock;

use super::*;
use crate::batching::Batching;
use crate::planner::telemetry::log_bytes;
use crate::planner::{ModelTimes, Scenario, ScenarioGroups, TargetFault, run_policy};

/// The size of each kind of log line, for a batch of ten messages.
struct LogBytes {
    processed: f64,
    handed_off: f64,
    /// The line is written by the failed-message-processor.
    scheduled: f64,
    /// The line is written by the message-processor.
    sent_again: f64,
    hopped: f64,
}

/// The duration that the docs assume for an invocation of a function that only calls SQS: four times the simulator's,
/// so that no deployment is sized too small.
const DECISION_SECONDS: f64 = 0.1;

/// Returns the combined invocations of the message-processor and the other functions.
fn invocations(calling: f64, deciding: f64) -> Invocations {
    let seconds = calling * CALL_SECONDS + deciding * DECISION_SECONDS;
    Invocations { count: calling + deciding, seconds }
}

const CALLING_FUNCTION: &str = "orders-prod-message-processor";
const DECIDING_FUNCTION: &str = "orders-prod-failed-message-processor";

fn log_line_bytes(function: &str, events: &[Event]) -> f64 {
    let clock = VirtualClock::new(Timestamp::from_timestamp(1_785_000_000, 0).unwrap());
    f64::from(u32::try_from(log_bytes(function, &clock, events)).unwrap())
}

fn message_id() -> String {
    "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01".to_owned()
}

/// Returns an event with values of typical lengths.
fn processed_event() -> Event {
    Event::Processed {
        message_id: message_id(),
        retry_attempt: 0,
        age_seconds: 1.234,
        target_seconds: 0.123_456,
    }
}

fn handed_off_event() -> Event {
    Event::HandedOff {
        message_id: message_id(),
        retry_attempt: 1,
        error_type: "HttpStatus.503".to_owned(),
        kind: "transient",
        age_seconds: 123.456,
        request_id: None,
    }
}

fn scheduled_event(error_type: Option<&str>) -> Event {
    Event::RetryScheduled {
        message_id: message_id(),
        retry_attempt: 1,
        spends_attempt: true,
        delay_seconds: RetryDelay::SHORT_MAX,
        age_seconds: 123.456,
        error_type: error_type.map(str::to_owned),
        request_id: None,
    }
}

fn log_bytes_for_ten_messages() -> LogBytes {
    LogBytes {
        processed: log_line_bytes(CALLING_FUNCTION, &vec![processed_event(); 10]),
        handed_off: log_line_bytes(CALLING_FUNCTION, &vec![handed_off_event(); 10]),
        scheduled: log_line_bytes(DECIDING_FUNCTION, &vec![scheduled_event(None); 10]),
        sent_again: log_line_bytes(CALLING_FUNCTION, &vec![scheduled_event(Some("HttpStatus.503")); 10]),
        hopped: log_line_bytes(DECIDING_FUNCTION, &[Event::Hopped { messages: 10 }]),
    }
}

/// Returns the size of the message-processor's log line for this many successes and at most one failure.
fn processor_log_bytes(done: u16, failing: Option<Strategy>) -> f64 {
    let failing = failing.map(|strategy| match strategy {
        Strategy::DirectResend => scheduled_event(Some("HttpStatus.503")),
        _ => handed_off_event(),
    });
    let events: Vec<_> = std::iter::repeat_n(processed_event(), done.into()).chain(failing).collect();
    log_line_bytes(CALLING_FUNCTION, &events)
}

fn scheduled_log_bytes() -> f64 {
    log_line_bytes(DECIDING_FUNCTION, &[scheduled_event(None)])
}

const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

fn read_page(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Asserts that a page contains this text, ignoring line breaks.
#[track_caller]
fn assert_page_contains(page_name: &str, wanted: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = read_page(page_name);
    assert!(words(&page).contains(&words(wanted)), "docs/{page_name} does not say:\n\n{wanted}\n");
}

fn format_dollars(amount: f64) -> String {
    format!("${amount:.2}")
}

/// Formats 1.2 as `1.2` and 2 as `2`.
fn format_short(number: f64) -> String {
    format!("{}", (number * 10.0).round() / 10.0)
}

fn format_whole(number: f64) -> String {
    HumanCount(format!("{number:.0}").parse().unwrap()).to_string()
}

/// Returns the table row for a million messages of one kind. The total is the sum of the displayed amounts.
fn cost_row(kind: &str, usage: Usage) -> String {
    let bill = usage.compute_bill(&Prices::shipped_list().prices, Architecture::Arm64);
    let amounts = [bill.sqs_requests, bill.lambda_requests, bill.lambda_duration, bill.logs];
    let cents: f64 = amounts.iter().map(|amount| (amount * 100.0).round()).sum();
    let requests = format_short((usage.sqs_requests + usage.sqs_fifo_requests) / 1e6);
    let [requests_cost, invocations, duration, logs] = amounts.map(format_dollars);
    let total = format_dollars(cents / 100.0);
    format!(
        "| {kind} | {requests} million: {requests_cost} | {invocations} | {duration} | {logs} | **{total}** |"
    )
}

fn immediate_success_usage() -> Usage {
    Usage {
        sqs_requests: 1_000_000.0 + 100_000.0 + 100_000.0,
        invocations: invocations(100_000.0, 0.0),
        log_bytes: 1e5 * log_bytes_for_ten_messages().processed,
        ..Usage::default()
    }
}

fn retry_usage() -> Usage {
    Usage {
        sqs_requests: 6.0 * 100_000.0,
        invocations: invocations(100_000.0, 100_000.0),
        log_bytes: 1e5 * (log_bytes_for_ten_messages().handed_off + log_bytes_for_ten_messages().scheduled),
        ..Usage::default()
    }
}

fn direct_retry_usage() -> Usage {
    Usage {
        sqs_requests: 3.0 * 100_000.0,
        invocations: invocations(100_000.0, 0.0),
        log_bytes: 1e5 * log_bytes_for_ten_messages().sent_again,
        ..Usage::default()
    }
}

#[test]
fn the_costs_of_a_million_messages_match_the_docs() {
    for (kind, usage) in [
        ("messages that succeed immediately", immediate_success_usage()),
        ("retries", retry_usage()),
        ("retries with `direct-resend`", direct_retry_usage()),
        ("messages with `ordered`", ordered_usage(1e6, &processed_event())),
        ("retries with `ordered`", ordered_retry_usage()),
    ] {
        assert_page_contains("deploy/cost.md", &cost_row(kind, usage));
    }
}

/// Returns the usage for a million messages that succeed immediately, or for a million retries, which hide the message
/// instead of sending it. Each batch has one message.
fn ordered_usage(sends: f64, event: &Event) -> Usage {
    Usage {
        sqs_fifo_requests: sends + 2e6,
        invocations: invocations(1e6, 0.0),
        log_bytes: 1e6 * log_line_bytes(CALLING_FUNCTION, std::slice::from_ref(event)),
        ..Usage::default()
    }
}

fn ordered_retry_usage() -> Usage {
    ordered_usage(0.0, &scheduled_event(Some("HttpStatus.503")))
}

#[test]
fn ordered_messages_and_retries_cost_fifo_requests_and_an_invocation_each() {
    let prices = Prices::shipped_list().prices;
    let (usage, retries) = (ordered_usage(1e6, &processed_event()), ordered_retry_usage());
    let bill = |usage: Usage| usage.compute_bill(&prices, Architecture::Arm64);
    assert_eq!((bill(usage).sqs_requests, bill(retries).sqs_requests), (1.5, 1.0));
    let measured = measure_million_retries(Strategy::Ordered);
    assert_eq!((measured.sqs_requests, measured.sqs_fifo_requests), (0.0, retries.sqs_fifo_requests));
    assert_eq!(measured.invocations, retries.invocations);
}

/// Returns the measured usage for a million retries: a simulation with retries minus one without.
fn measure_million_retries(strategy: Strategy) -> Usage {
    // All messages are sent together, so that batches are full. Each message fails once and is received again a minute
    // later.
    let policy = r#"{"circuit_breaker":false,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
    let policy = Policy::from_json(policy).unwrap();
    let messages = 2000;
    // No message waits behind another.
    let groups = strategy.definition().is_fifo.then_some(ScenarioGroups { count: 2000, down: 2000 });
    let measured = |outage: u64| {
        let scenario = Scenario {
            strategy,
            messages,
            fault: TargetFault::Outage(Duration::from_secs(outage)),
            groups,
            over: Duration::from_secs(1),
            batching: Batching::for_message_processor(strategy),
            times: ModelTimes::NONE,
            ..Scenario::default()
        };
        run_policy(&policy, &scenario, &|_| {}).unwrap()
    };
    // Without an outage, no message fails; with an outage of 30 s, each message fails once.
    let (without, with) = (measured(0), measured(30));
    assert_eq!((without.retries, with.retries), (0, messages));
    let (without, with) = (without.usage, with.usage);
    let million = |value: fn(&Usage) -> f64| (value(&with) - value(&without)) * 1e6 / 2000.0;
    let count = million(|usage| usage.invocations.count);
    // No operation takes time in this model, so the durations are those that the docs assume.
    let deciding = if strategy == Strategy::DelayedResend { count / 2.0 } else { 0.0 };
    Usage {
        sqs_requests: million(|usage| usage.sqs_requests),
        sqs_fair_requests: million(|usage| usage.sqs_fair_requests),
        sqs_fifo_requests: million(|usage| usage.sqs_fifo_requests),
        invocations: invocations(count - deciding, deciding),
        log_bytes: million(|usage| usage.log_bytes),
    }
}

/// Without this test, a change could raise the cost of a retry unnoticed.
#[test]
fn the_cost_of_a_retry_matches_the_docs() {
    for (strategy, requests, most) in
        [(Strategy::DelayedResend, 0.6, 0.70), (Strategy::DirectResend, 0.3, 0.40)]
    {
        let usage = measure_million_retries(strategy);
        assert!((usage.sqs_requests / 1e6 - requests).abs() < 0.001, "{strategy}: {usage:?}");
        let bill = usage.compute_bill(&Prices::shipped_list().prices, Architecture::Arm64);
        assert!(bill.total() <= most, "{strategy}: ${:.3} {bill:?}", bill.total());
    }
}

/// The settings of a deployment.
#[derive(Clone, Copy)]
struct Deployment {
    strategy: Strategy,
    /// Messages per receive on the source queue.
    received: u32,
    /// Messages per batch; with a batching window, a batch can take several receives.
    batch: u32,
    traced: bool,
}

/// The share of messages that fail, once each.
const FAILING_SHARE: f64 = 0.02;
/// The number of concurrent long polls per event source mapping; each lasts 20 s.
const POLLERS: f64 = 5.0;
/// The construct's default for `maxBatchingWindow`.
const WINDOW_SECONDS: f64 = 1.0;
/// X-Ray's sampling rate above one invocation per second.
const SAMPLING_RATE: f64 = 0.05;

/// Returns a month's bill: SQS, Lambda, logs, traces. Assumes that a failing message is the only failure in its batch,
/// and is alone in its batch on an inner queue.
fn monthly_bill(messages_a_day: f64, deployed: Deployment) -> [f64; 4] {
    let Deployment { strategy, received, batch, traced } = deployed;
    let prices = Prices::shipped_list().prices;
    let sent = 30.0 * messages_a_day;
    let deliveries = sent * (1.0 + FAILING_SHARE);
    let batches = deliveries / f64::from(batch);
    let failing_batches = batches * (1.0 - (1.0 - FAILING_SHARE).powi(i32::try_from(batch).unwrap()));
    let deciding = if strategy == Strategy::DirectResend { 0.0 } else { failing_batches };
    let success_log_bytes = processor_log_bytes(u16::try_from(batch).unwrap(), None);
    let failing = processor_log_bytes(u16::try_from(batch - 1).unwrap(), Some(strategy));
    let usage = Usage {
        // Sends, receives, one delete per batch, hand-offs or re-sends, and the failed-message-processor's three
        // requests per batch.
        sqs_requests: sent + deliveries / f64::from(received) + batches + failing_batches + 3.0 * deciding,
        invocations: invocations(batches, deciding),
        log_bytes: (batches - failing_batches) * success_log_bytes
            + failing_batches * failing
            + deciding * scheduled_log_bytes(),
        ..Usage::default()
    };
    let bill = usage.compute_bill(&prices, Architecture::Arm64);
    let invocations = usage.invocations.count;
    let at_once = invocations.min(MONTH_SECONDS);
    let traces = at_once + (invocations - at_once) * SAMPLING_RATE;
    let traces = if traced { traces / 1e6 * prices.traces_million.dollars } else { 0.0 };
    [bill.sqs_requests, bill.lambda_requests + bill.lambda_duration, bill.logs, traces]
}

/// Returns the batch size if each poller waits this long for more messages.
fn batch_size(messages_a_day: f64, window_seconds: f64) -> u32 {
    let most = messages_a_day / 86_400.0 * window_seconds / POLLERS;
    (1..=10).rev().find(|batch| f64::from(*batch) <= most).unwrap_or(1)
}

#[test]
fn the_monthly_costs_of_three_loads_match_the_docs() {
    let loads = [("1,000", 1e3), ("1 million", 1e6), ("100 million", 1e8)];
    let rows = loads.map(|(name, load)| {
        // Above a thousand messages per second, batches are full without a window.
        let received = if load > 5e7 { 10 } else { 1 };
        let cheapest = Deployment {
            strategy: Strategy::DirectResend,
            received,
            batch: received.max(batch_size(load, 20.0)),
            traced: false,
        };
        let batch = received.max(batch_size(load, WINDOW_SECONDS));
        let default = Deployment { strategy: Strategy::DelayedResend, received, batch, traced: true };
        let [default, cheapest] = [default, cheapest].map(|deployed| monthly_bill(load, deployed));
        // The sum of the displayed amounts.
        let cents = |bill: [f64; 4]| bill.map(|amount| (amount * 100.0).round()).into_iter().sum::<f64>();
        let total = [default, cheapest].map(|bill| format_dollars(cents(bill) / 100.0));
        format!("| {name} | {} | {} |\n", total[0], total[1])
    });
    assert_page_contains("deploy/cost.md", &rows.concat());
}

/// Without this test, the page's costs would go stale when the price list changes.
#[test]
fn the_sizing_for_four_loads_matches_the_docs() {
    let billion_a_month = 1e9 / MONTH_SECONDS;
    let loads = [("10", 10.0), ("386: a billion a month", billion_a_month), ("1,000", 1e3), ("10,000", 1e4)];
    let rows = loads.map(|(name, per_second)| {
        // At ten per second, messages are received one by one; at higher rates, the batching window fills batches.
        let received = if per_second < 100.0 { 1 } else { 10 };
        let batch = batch_size(86_400.0 * per_second, WINDOW_SECONDS);
        let max_concurrency = (1.5 * per_second * CALL_SECONDS / 10.0).ceil().max(10.0);
        let columns = |strategy, inner_concurrency: f64| {
            let deployed = Deployment { strategy, received, batch, traced: true };
            let bill: f64 = monthly_bill(86_400.0 * per_second, deployed).iter().sum();
            let concurrency = max_concurrency + 2.0 * inner_concurrency;
            format!("{inner_concurrency} | {concurrency} | ${}", format_whole(bill))
        };
        let delayed = columns(Strategy::DelayedResend, (per_second / 25.0).ceil().max(2.0));
        let direct = columns(Strategy::DirectResend, 2.0);
        format!("| {name} | {max_concurrency} | {delayed} | {direct} |\n")
    });
    assert_page_contains("scale.md", &rows.concat());
}

#[test]
fn the_costs_of_low_traffic_and_large_messages_match_the_docs() {
    let Prices { prices, region, read_on } = Prices::shipped_list();
    assert_page_contains(
        "deploy/cost.md",
        &format!("List prices of {region} as of {read_on}, without free tiers"),
    );
    let single = Usage { sqs_requests: 3e6, invocations: invocations(1e6, 0.0), ..Usage::default() };
    let bill = single.compute_bill(&prices, Architecture::Arm64);
    assert_page_contains(
        "deploy/cost.md",
        &format!(
            "about ${:.1} + ${:.1} + ${:.1} per million messages, plus the logs.",
            bill.sqs_requests, bill.lambda_requests, bill.lambda_duration
        ),
    );
    // A send carries one message of 64 KB, a receive carries ten, and a delete carries none.
    let billed = format_short((1_000_000.0 + 10.0 * 100_000.0 + 100_000.0) / 1e6);
    assert_page_contains(
        "deploy/cost.md",
        &format!("with messages of 64 KB the first row's requests are {billed} million"),
    );
    let [messages, again] = [immediate_success_usage(), retry_usage()]
        .map(|usage| format_dollars(usage.sqs_requests / 1e6 * prices.sqs_fair_million_requests.dollars));
    assert_page_contains(
        "deploy/cost.md",
        &format!(
            "${:.2} more per million requests: {messages} for the first row, {again} for the retries.",
            prices.sqs_fair_million_requests.dollars
        ),
    );
    let [first, second] = [immediate_success_usage(), retry_usage()]
        .map(|usage| format_dollars(usage.compute_bill(&prices, Architecture::X86_64).lambda_duration));
    assert_page_contains(
        "deploy/cost.md",
        &format!("On x86-64 the first two durations cost {first} and {second}."),
    );
}

#[test]
fn the_fixed_monthly_costs_match_the_docs() {
    let Prices { prices, .. } = Prices::shipped_list();
    let polls = 3.0 * 5.0 * MONTH_SECONDS / 20.0;
    let polling = Usage { sqs_requests: polls, ..Usage::default() };
    let polling = polling.compute_bill(&prices, Architecture::Arm64).sqs_requests;
    let [metric, alarm] = [prices.metric_month.dollars, prices.alarm_month.dollars];
    assert_page_contains(
        "deploy/cost.md",
        &format!(
            "| idle polling | 3 mappings × 5 long polls of 20 s = {:.2} million requests | {} |\n\
         | alarms | 24 on 28 metrics, at {} (15 on 19 with `visibility`) | {} |\n\
         | dashboard | one; the account's first three are free | {} |\n\
         | metrics | {} each, by the hours in which it was written: 15 always used, up to about 49 with all attempts, kinds, error types and an outage | {} to {} |\n\
         | traces | X-Ray samples one request per second and 5 % of the rest, at ${} per million | at most ${:.0} + 5 % of the traffic |",
            polls / 1e6,
            format_dollars(polling),
            format_dollars(alarm),
            format_dollars(28.0 * alarm),
            format_dollars(prices.dashboard_month.dollars),
            format_dollars(metric),
            format_dollars(15.0 * metric),
            format_dollars(49.0 * metric),
            prices.traces_million.dollars,
            MONTH_SECONDS / 1e6 * prices.traces_million.dollars,
        ),
    );
}

#[test]
fn the_archive_costs_match_the_docs() {
    let Prices { prices, .. } = Prices::shipped_list();
    let PriceList { s3_thousand_writes, s3_gb_month, sns_hundred_thousand_mails, .. } = prices;
    let gigabytes = 6e3 * 1e6 / 1e9;
    // Seven causes, each reported once per hour for a week, in ten environments.
    let mails = 7.0 * 7.0 * 24.0 * 10.0;
    assert_page_contains(
        "deploy/cost.md",
        &format!(
            "| a million dead letters in an archive | | |\n| --- | --- | --- |\n\
             | S3 writes | 1,000,000, at ${} per thousand | {} |\n\
             | S3 storage | at most 1,000,000 × 6 KB = {gigabytes} GB, at ${} per GB and month | {} per month |\n\
             | notices | at most 7 causes × 168 hours of a week × 10 environments = 11,760 mails, at {} per hundred thousand | {} |",
            s3_thousand_writes.dollars,
            format_dollars(1e6 / 1e3 * s3_thousand_writes.dollars),
            s3_gb_month.dollars,
            format_dollars(gigabytes * s3_gb_month.dollars),
            format_dollars(sns_hundred_thousand_mails.dollars),
            format_dollars(mails / 1e5 * sns_hundred_thousand_mails.dollars),
        ),
    );
}

#[test]
fn the_costs_of_a_customer_managed_kms_key_match_the_docs() {
    let Prices { prices, .. } = Prices::shipped_list();
    // Senders and readers of each queue, with `delayed-resend` and one producer.
    let queues = [
        ("source", 3.0, 1.0),
        ("intermediate DLQ", 1.0, 1.0),
        ("annotation", 2.0, 1.0),
        ("final DLQ", 1.0, 0.0),
    ];
    let requests = queues.map(|(_, senders, readers)| 2.0 * senders + readers).iter().sum::<f64>();
    let requests = MONTH_SECONDS / 300.0 * requests;
    let [key, million] = [&prices.kms_key_month, &prices.kms_million_requests].map(|price| price.dollars);
    assert_page_contains(
        "deploy/cost.md",
        &format!(
            "| your own key (`encryptionKey`) | {}, and at most {:.2} million requests, at {} per million | at most {} |",
            format_dollars(key),
            requests / 1e6,
            format_dollars(million),
            format_dollars(key + requests / 1e6 * million),
        ),
    );
}

#[test]
fn the_costs_of_hops_match_the_docs() {
    let Prices { prices, region, .. } = Prices::shipped_list();
    let hops = 4e6;
    let usage = Usage {
        sqs_requests: 0.3 * hops,
        invocations: invocations(0.0, hops / 10.0),
        log_bytes: hops / 10.0 * log_bytes_for_ten_messages().hopped,
        ..Usage::default()
    };
    let bill = usage.compute_bill(&prices, Architecture::Arm64);
    let lines = hops / 10.0 * log_bytes_for_ten_messages().hopped / 1e9;
    let logs = lines * prices.logs_gb.dollars;
    assert_page_contains(
        "strategies/delayed-resend.md",
        &format!(
            "With four hops per hour, a million waiting messages make {} million requests per hour, {} at {} per million \
         (the SQS list price for standard queues in {region}; each 64 KB of a larger body counts), \
         and {} million invocations of the failed-message-processor, {} plus their duration. \
         A log line of {} bytes covers the ten messages that hop together: {:.2} GB, {} at {} per GB. \
         The total is about {} per million messages and hour.",
            format_short(usage.sqs_requests / 1e6),
            format_dollars(bill.sqs_requests),
            format_dollars(prices.sqs_million_requests.dollars),
            format_short(usage.invocations.count / 1e6),
            format_dollars(bill.lambda_requests),
            log_bytes_for_ten_messages().hopped,
            lines,
            format_dollars(logs),
            format_dollars(prices.logs_gb.dollars),
            format_dollars(bill.sqs_requests + bill.lambda_requests + logs),
        ),
    );
}
