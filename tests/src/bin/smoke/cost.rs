//! The cost of a run at list price. Free tiers are not counted.

use serde_json::Value;

use crate::report::SmokeReport;

const PRICES: &str = include_str!("../../../../crates/sim/src/cost/prices.json");
/// CloudWatch charges monthly prices by the hour; a month is a twelfth of a year.
const HOURS_PER_MONTH: f64 = 730.0;
/// Each message is sent, received and deleted a few times, and the mappings' 16 pollers poll three times a minute.
const REQUESTS: f64 = 2000.0;
const INVOCATIONS: f64 = 200.0;
/// One second per invocation at 256 MiB, which is more than the invocations use.
const GB_SECONDS: f64 = INVOCATIONS / 4.0;
/// At least the number of alarms in the template.
const ALARMS: f64 = 30.0;
/// Each value of a dimension counts as a metric.
const METRICS: f64 = 60.0;
const LOG_GB: f64 = 0.001;

/// Returns the estimated cost before a run: one hour of all hourly charges.
pub(crate) fn expected_dollars() -> f64 {
    dollars_for_hours(1.0)
}

/// Returns the cost after a run. Hours are rounded up.
pub(crate) fn cost_in_dollars(report: &SmokeReport) -> f64 {
    dollars_for_hours((report.elapsed_seconds() / 3600.0).ceil().max(1.0))
}

fn dollars_for_hours(hours: f64) -> f64 {
    let list: Value = serde_json::from_str(PRICES).expect("our own file is JSON");
    let price = |name: &str| list["prices"][name]["dollars"].as_f64().expect("a price is a number");
    let by_month = ALARMS * price("alarm_month") + METRICS * price("metric_month") + price("dashboard_month");
    by_month * hours / HOURS_PER_MONTH
        + REQUESTS * price("sqs_million_requests") / 1e6
        + INVOCATIONS * (price("lambda_million_requests") + price("traces_million")) / 1e6
        + GB_SECONDS * price("lambda_gb_second_x86_64")
        + LOG_GB * price("logs_gb")
}
