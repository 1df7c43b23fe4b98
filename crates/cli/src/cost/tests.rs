//! The docs' figures, computed: each page must have these words and numbers.

use std::time::Duration;

use redeliver_core::events::{Event, HandedOff, Hopped, Processed, RetryScheduled};
use redeliver_core::limits::RetryDelay;
use redeliver_core::message::Timestamp;
use redeliver_core::policy::Policy;
use redeliver_core::strategy::Strategy;
use redeliver_embedded::VirtualClock;

use super::usage::{DECISION_SECONDS, MEMORY_GB};
use super::*;
use crate::people::grouped;
use crate::simulate::{Concurrency, Scenario, Trouble, log_bytes, run};

/// Bytes that the functions log of ten messages: the line of a batch.
struct LogBytes {
    processed: f64,
    handed_off: f64,
    /// By the failed-message-processor.
    scheduled: f64,
    /// By the message-processor itself.
    sent_again: f64,
    hopped: f64,
}

/// As the functions write them, with values of usual lengths.
fn log_bytes_of_ten() -> LogBytes {
    let message_id = || "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01".to_owned();
    let clock = VirtualClock::new(Timestamp::from_timestamp(1_785_000_000, 0).unwrap());
    let bytes = |function: &str, event: Event, times: usize| {
        f64::from(u32::try_from(log_bytes(function, &clock, &vec![event; times])).unwrap())
    };
    let (calls, decides) = ("orders-prod-message-processor", "orders-prod-failed-message-processor");
    let processed = Processed {
        message_id: message_id(),
        retry_attempt: 0,
        age_seconds: 1.234,
        target_seconds: 0.123_456,
    };
    let handed_off = HandedOff {
        message_id: message_id(),
        retry_attempt: 1,
        error_type: "HttpStatus.503".to_owned(),
        kind: "transient",
        age_seconds: 123.456,
    };
    let scheduled = |error_type: Option<&str>| {
        Event::RetryScheduled(RetryScheduled {
            message_id: message_id(),
            retry_attempt: 1,
            spends_attempt: true,
            delay_seconds: RetryDelay::SHORT_MAX,
            age_seconds: 123.456,
            error_type: error_type.map(str::to_owned),
        })
    };
    LogBytes {
        processed: bytes(calls, Event::Processed(processed), 10),
        handed_off: bytes(calls, Event::HandedOff(handed_off), 10),
        scheduled: bytes(decides, scheduled(None), 10),
        sent_again: bytes(calls, scheduled(Some("HttpStatus.503")), 10),
        hopped: bytes(decides, Event::Hopped(Hopped { messages: 10 }), 1),
    }
}

const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

fn page(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Line breaks do not count.
#[track_caller]
fn is_in(page_name: &str, wanted: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = page(page_name);
    assert!(words(&page).contains(&words(wanted)), "docs/{page_name} does not say:\n\n{wanted}\n");
}

fn dollars(amount: f64) -> String {
    format!("${amount:.2}")
}

/// 1.2 as `1.2`, 2 as `2`.
fn short(number: f64) -> String {
    format!("{}", (number * 10.0).round() / 10.0)
}

fn whole(number: f64) -> String {
    grouped(format!("{number:.0}").parse().unwrap())
}

/// A table of one kind of message: its title, and what stands next to each line of its bill. What stands at the end is
/// the sum of what is shown.
fn table(title: &str, usage: Usage, [requests, invocations, duration, logs]: [String; 4]) -> String {
    let Prices { prices, .. } = Prices::list();
    let bill = usage.bill(&prices, Architecture::Arm64);
    let lines = [
        ("SQS requests", requests, bill.sqs_requests),
        ("Lambda requests", invocations, bill.lambda_requests),
        ("Lambda duration", duration, bill.lambda_duration),
        ("logs", logs, bill.logs),
    ];
    let cents: f64 = lines.iter().map(|(.., amount)| (amount * 100.0).round()).sum();
    let rows = lines.map(|(name, how, amount)| format!("| {name} | {how} | {} |\n", dollars(amount)));
    format!(
        "| {title} | | |\n| --- | --- | --- |\n{}| **together** | | **{}** |\n",
        rows.concat(),
        dollars(cents / 100.0)
    )
}

fn at_once() -> Usage {
    Usage {
        sqs_requests: 1_000_000.0 + 100_000.0 + 100_000.0,
        invocations: Invocations { calling: 100_000.0, deciding: 0.0 },
        log_bytes: 1e5 * log_bytes_of_ten().processed,
    }
}

fn retries() -> Usage {
    Usage {
        sqs_requests: 6.0 * 100_000.0,
        invocations: Invocations { calling: 100_000.0, deciding: 100_000.0 },
        log_bytes: 1e5 * (log_bytes_of_ten().handed_off + log_bytes_of_ten().scheduled),
    }
}

#[test]
fn a_million_messages_that_succeed_at_once() {
    let (usage, prices) = (at_once(), Prices::list().prices);
    let how = [
        format!(
            "1,000,000 sends + 100,000 receives + 100,000 deletes, at {} a million",
            dollars(prices.sqs_million_requests.dollars)
        ),
        format!(
            "{}, at {} a million",
            whole(usage.invocations.total()),
            dollars(prices.lambda_million_requests.dollars)
        ),
        format!(
            "{} × {CALL_SECONDS} s × {MEMORY_GB} GB = {} GB-s, at ${:.10}",
            whole(usage.invocations.calling),
            whole(usage.invocations.gb_seconds()),
            prices.lambda_gb_second_arm64.dollars
        ),
        format!(
            "100,000 × {} bytes + {} × 2 × 400 bytes of Lambda's own = {:.2} GB, at {}",
            log_bytes_of_ten().processed,
            whole(usage.invocations.total()),
            usage.log_gb(),
            dollars(prices.logs_gb.dollars)
        ),
    ];
    is_in("deploy.md", &table("a million messages that succeed at once", usage, how));
}

#[test]
fn a_million_retries() {
    let usage = retries();
    let Invocations { calling, deciding } = usage.invocations;
    let how = [
        format!(
            "100,000 each: hand-off; receive, delete; re-send; receive, delete = {}",
            whole(usage.sqs_requests)
        ),
        format!(
            "{} of the failed-message-processor + {} of the message-processor",
            whole(deciding),
            whole(calling)
        ),
        format!(
            "{} × ({DECISION_SECONDS} s + {CALL_SECONDS} s) × {MEMORY_GB} GB = {} GB-s",
            whole(calling),
            whole(usage.invocations.gb_seconds())
        ),
        format!(
            "100,000 × ({} + {}) bytes + {} × 2 × 400 bytes = {:.2} GB",
            log_bytes_of_ten().handed_off,
            log_bytes_of_ten().scheduled,
            whole(usage.invocations.total()),
            usage.log_gb()
        ),
    ];
    is_in("deploy.md", &table("a million retries", usage, how));
}

fn direct_retries() -> Usage {
    Usage {
        sqs_requests: 3.0 * 100_000.0,
        invocations: Invocations { calling: 100_000.0, deciding: 0.0 },
        log_bytes: 1e5 * log_bytes_of_ten().sent_again,
    }
}

#[test]
fn a_million_direct_retries() {
    let usage = direct_retries();
    let Invocations { calling, .. } = usage.invocations;
    let how = [
        format!("100,000 each: re-send; receive, delete = {}", whole(usage.sqs_requests)),
        format!("{} of the message-processor", whole(calling)),
        format!(
            "{} × {CALL_SECONDS} s × {MEMORY_GB} GB = {} GB-s",
            whole(calling),
            whole(usage.invocations.gb_seconds())
        ),
        format!(
            "100,000 × {} bytes + {} × 2 × 400 bytes = {:.2} GB",
            log_bytes_of_ten().sent_again,
            whole(usage.invocations.total()),
            usage.log_gb()
        ),
    ];
    is_in("deploy.md", &table("a million retries with `direct-resend`", usage, how));
}

/// What a retry asks for, measured: the simulation with it less the one without.
fn of_a_million_retries(strategy: Strategy) -> Usage {
    // All at once, so that batches are full; each fails once, and comes back a minute later.
    let policy = r#"{"circuit_breaker":false,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
    let policy = Policy::from_json(policy).unwrap();
    let messages = 2000;
    let measured = |outage: u64| {
        let scenario = Scenario {
            strategy,
            messages,
            trouble: Trouble::Outage(Duration::from_secs(outage)),
            capacity: None,
            over: Duration::from_secs(1),
            invocations: Concurrency::Unlimited { environments: 10 },
            batching_window: Duration::ZERO,
            seed: 0,
        };
        run(&policy, &scenario, &|_| {}).unwrap()
    };
    // The second before the first message is sent is over when it is.
    let (without, with) = (measured(0), measured(30));
    assert_eq!((without.retries, with.retries), (0, messages));
    let million = |with: f64, without: f64| (with - without) * 1e6 / 2000.0;
    let (Invocations { calling, deciding }, before) = (with.usage.invocations, without.usage.invocations);
    Usage {
        sqs_requests: million(with.usage.sqs_requests, without.usage.sqs_requests),
        invocations: Invocations {
            calling: million(calling, before.calling),
            deciding: million(deciding, before.deciding),
        },
        log_bytes: million(with.usage.log_bytes, without.usage.log_bytes),
    }
}

/// The gate: what a retry may cost.
#[test]
fn a_retry_is_as_cheap_as_the_docs_say() {
    for (strategy, requests, most) in
        [(Strategy::DelayedResend, 0.6, 0.70), (Strategy::DirectResend, 0.3, 0.40)]
    {
        let usage = of_a_million_retries(strategy);
        assert!((usage.sqs_requests / 1e6 - requests).abs() < 0.001, "{strategy}: {usage:?}");
        let bill = usage.bill(&Prices::list().prices, Architecture::Arm64);
        assert!(bill.total() <= most, "{strategy}: ${:.3} {bill:?}", bill.total());
    }
}

#[test]
fn thin_traffic_large_messages_and_the_other_processor() {
    let Prices { prices, region, read_on } = Prices::list();
    is_in("deploy.md", &format!("List prices of {region} as of {read_on}, without free tiers"));
    let single =
        Usage { sqs_requests: 3e6, invocations: Invocations { calling: 1e6, deciding: 0.0 }, log_bytes: 0.0 };
    let bill = single.bill(&prices, Architecture::Arm64);
    is_in(
        "deploy.md",
        &format!(
            "about ${:.1} + ${:.1} + ${:.1} a million messages, and the logs.",
            bill.sqs_requests, bill.lambda_requests, bill.lambda_duration
        ),
    );
    // A send carries one of 64 KB, a receive ten, a delete none.
    let billed = short((1_000_000.0 + 10.0 * 100_000.0 + 100_000.0) / 1e6);
    is_in("deploy.md", &format!("with messages of 64 KB the first table's requests are {billed} million"));
    let [first, second] = [at_once(), retries()]
        .map(|usage| dollars(usage.bill(&prices, Architecture::X86_64).lambda_duration));
    is_in("deploy.md", &format!("On x86-64 the two durations cost {first} and {second}."));
}

#[test]
fn each_month_whatever_the_traffic() {
    let Prices { prices, .. } = Prices::list();
    let polls = 3.0 * 5.0 * MONTH_SECONDS / 20.0;
    let polling = Usage { sqs_requests: polls, ..Usage::default() };
    let polling = polling.bill(&prices, Architecture::Arm64).sqs_requests;
    let [metric, alarm] = [prices.metric_month.dollars, prices.alarm_month.dollars];
    is_in(
        "deploy.md",
        &format!(
            "| idle polling | 3 mappings × 5 long polls of 20 s = {:.2} million requests | {} |\n\
         | alarms | 25, at {} (16 with `visibility`) | {} |\n\
         | dashboard | one; the account's first three are free | {} |\n\
         | metrics | {} each, by the hours in which it was written: 15 always used, up to about 48 with all attempts, kinds, error types and an outage | {} to {} |\n\
         | traces | X-Ray samples one request a second and 5 % of the rest, at ${} a million | at most ${:.0} + 5 % of the traffic |",
            polls / 1e6,
            dollars(polling),
            dollars(alarm),
            dollars(25.0 * alarm),
            dollars(prices.dashboard_month.dollars),
            dollars(metric),
            dollars(15.0 * metric),
            dollars(48.0 * metric),
            prices.traces_million.dollars,
            MONTH_SECONDS / 1e6 * prices.traces_million.dollars,
        ),
    );
}

#[test]
fn an_hour_of_hops() {
    let Prices { prices, region, .. } = Prices::list();
    let hops = 4e6;
    let usage = Usage {
        sqs_requests: 0.3 * hops,
        invocations: Invocations { calling: 0.0, deciding: hops / 10.0 },
        log_bytes: hops / 10.0 * log_bytes_of_ten().hopped,
    };
    let bill = usage.bill(&prices, Architecture::Arm64);
    let lines = hops / 10.0 * log_bytes_of_ten().hopped / 1e9;
    let logs = lines * prices.logs_gb.dollars;
    is_in(
        "strategies.md",
        &format!(
            "with four hops an hour, a million messages that wait make {} million requests an hour, {} at {} a million \
         (Amazon SQS's list price for standard queues in {region}; look it up, and count bodies above 64 KB by each 64 KB), \
         and {} million invocations of the failed-message-processor, {} plus their milliseconds. \
         A log line of {} bytes tells of the ten messages that hop together: {:.2} GB, {} at {} a GB. \
         Together about {} for a million messages and an hour.",
            short(usage.sqs_requests / 1e6),
            dollars(bill.sqs_requests),
            dollars(prices.sqs_million_requests.dollars),
            short(usage.invocations.total() / 1e6),
            dollars(bill.lambda_requests),
            log_bytes_of_ten().hopped,
            lines,
            dollars(logs),
            dollars(prices.logs_gb.dollars),
            dollars(bill.sqs_requests + bill.lambda_requests + logs),
        ),
    );
}
