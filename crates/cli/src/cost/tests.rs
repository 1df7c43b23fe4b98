//! The docs' figures, computed: each page must have these words and numbers.

use redeliver_core::events::{Event, HandedOff, Hopped, Processed, RetryScheduled};
use redeliver_core::limits::RetryDelay;
use redeliver_core::message::Timestamp;
use redeliver_embedded::VirtualClock;

use super::usage::{DECISION_SECONDS, MEMORY_GB};
use super::*;
use crate::people::grouped;
use crate::simulate::line_bytes;

/// Log lines of the functions, in bytes.
struct LogLines {
    processed: f64,
    handed_off: f64,
    scheduled: f64,
    /// One for ten messages.
    hopped: f64,
}

/// As the functions write them, with values of usual lengths.
fn log_lines() -> LogLines {
    let message_id = || "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01".to_owned();
    let clock = VirtualClock::new(Timestamp::from_timestamp(1_785_000_000, 0).unwrap());
    let bytes =
        |function: &str, event| f64::from(u32::try_from(line_bytes(function, &clock, &event)).unwrap());
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
    let scheduled = RetryScheduled {
        message_id: message_id(),
        retry_attempt: 1,
        spends_attempt: true,
        delay_seconds: RetryDelay::SHORT_MAX,
        age_seconds: 123.456,
        error_type: None,
    };
    LogLines {
        processed: bytes(calls, Event::Processed(processed)),
        handed_off: bytes(calls, Event::HandedOff(handed_off)),
        scheduled: bytes(decides, Event::RetryScheduled(scheduled)),
        hopped: bytes(decides, Event::Hopped(Hopped { messages: 10 })),
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
        log_bytes: 1e6 * log_lines().processed,
    }
}

fn retries() -> Usage {
    Usage {
        sqs_requests: 6.0 * 100_000.0,
        invocations: Invocations { calling: 100_000.0, deciding: 100_000.0 },
        log_bytes: 1e6 * (log_lines().handed_off + log_lines().scheduled),
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
            "1,000,000 × {} bytes + {} × 2 × 400 bytes of Lambda's own = {:.2} GB, at {}",
            log_lines().processed,
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
            "1,000,000 × ({} + {}) bytes + {} × 2 × 400 bytes = {:.2} GB",
            log_lines().handed_off,
            log_lines().scheduled,
            whole(usage.invocations.total()),
            usage.log_gb()
        ),
    ];
    is_in("deploy.md", &table("a million retries", usage, how));
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
        log_bytes: hops / 10.0 * log_lines().hopped,
    };
    let bill = usage.bill(&prices, Architecture::Arm64);
    let lines = hops / 10.0 * log_lines().hopped / 1e9;
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
            log_lines().hopped,
            lines,
            dollars(logs),
            dollars(prices.logs_gb.dollars),
            dollars(bill.sqs_requests + bill.lambda_requests + logs),
        ),
    );
}
