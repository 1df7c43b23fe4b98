//! The form that starts a plan, and its fields.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use maud::{Markup, html};
use redeliver_core::ports::is_fifo;
use redeliver_operator::CommandFailure;
use redeliver_operator::redrive::{RATE_MAX, RedrivePace, WATCH_SECONDS_MAX};
use redeliver_operator::terminal::units::format_count;
use serde::Deserialize;

use crate::plans::plan::PlanAction;
use crate::plans::runner::StartRequest;

/// Renders the form that starts a plan, or continues one with this pace.
pub(crate) fn render_start_form(
    action: &PlanAction,
    path: &str,
    stored: Option<RedrivePace>,
    count: usize,
) -> Markup {
    let pace = stored.unwrap_or_default();
    // Detects that another tab has started the plan with different settings in the meantime.
    let shown = stored.and_then(|pace| serde_json::to_string(&pace).ok());
    let field = |name: &str, label: &str, value: &str, least: u64, most: u64| {
        html! { label { (label) input type="number" name=(name) value=(value) min=(least) max=(most); } }
    };
    let count = format_count(count as u64, "message");
    let rate = pace.rate.map(|rate| rate.to_string()).unwrap_or_default();
    html! {
        form class="filters" method="post" action={(path) "/start"} {
            @if let Some(shown) = &shown { input type="hidden" name="shown" value=(shown); }
            @if *action == PlanAction::Delete { p { "Each message is written to a backup file before it is deleted." } }
            @else { (field("rate", "Messages per second (empty: no limit)", &rate, 1, RATE_MAX.into())) }
            @if action.destination_arn().is_some_and(is_fifo) { p { "The source queue is a FIFO queue: each message goes to the end of its group, behind messages that were sent later." } }
            @if let PlanAction::SendBack { .. } = action {
                (field("watch_seconds", "Watch the first 50 for (seconds)", &pace.watch_seconds.to_string(), 0, WATCH_SECONDS_MAX))
                (field("stop_after_failures_percent", "Stop if more than this percentage fails again", &pace.stop_after_failures_percent.to_string(), 0, 100))
                label class="check" { input type="checkbox" name="allow_paused" value="1" checked[pace.allow_paused]; "Send even if the deployment is paused" }
            }
            button class="go" {
                @if stored.is_some() { "Continue" }
                @else { @match action { PlanAction::SendBack { .. } => "Send back ", PlanAction::Delete => "Delete ", PlanAction::Restore { .. } => "Restore " } (count) }
            }
        }
        @if !matches!(action, PlanAction::Restore { .. }) {
            p class="remark" { "The run reads the DLQ once or more; like a refresh, each reading receives every message." }
        }
    }
}

/// The fields of the form.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PaceForm {
    rate: String,
    watch_seconds: String,
    stop_after_failures_percent: String,
    allow_paused: Option<String>,
    /// The settings with which the form was rendered.
    shown: Option<String>,
}

impl PaceForm {
    /// Parses the fields. If they are empty, the rate is unlimited, and the watch time and stop threshold are those of
    /// [`RedrivePace`].
    ///
    /// # Errors
    /// A field is invalid. The error contains its name and range.
    pub(crate) fn parse_request(&self) -> Result<StartRequest, CommandFailure> {
        let default = RedrivePace::default();
        let watch_seconds = parse_number("seconds", &self.watch_seconds, 0..=WATCH_SECONDS_MAX)?;
        let percent = parse_number("percent", &self.stop_after_failures_percent, 0..=100)?;
        let pace = RedrivePace {
            rate: parse_number("messages per second", &self.rate, 1..=RATE_MAX)?,
            watch_seconds: watch_seconds.unwrap_or(default.watch_seconds),
            stop_after_failures_percent: percent.unwrap_or(default.stop_after_failures_percent),
            allow_paused: self.allow_paused.is_some(),
        };
        let shown = self.shown.as_deref().map(serde_json::from_str).transpose()?;
        Ok(StartRequest { pace, shown })
    }
}

/// Parses a field, or returns `None` if it is empty.
fn parse_number<N>(name: &str, text: &str, range: RangeInclusive<N>) -> Result<Option<N>, CommandFailure>
where
    N: FromStr + PartialOrd + Display,
{
    if text.trim().is_empty() {
        return Ok(None);
    }
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    let wrong = || format!("{name}: a whole number from {} to {}", range.start(), range.end()).into();
    number.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_form_warns_about_the_order_of_a_fifo_redrive() {
        let form = |queue: &str| {
            let (to, deletion) = (format!("arn:aws:sqs:eu-central-1:123456789012:{queue}"), "d".to_owned());
            render_start_form(&PlanAction::Restore { to, deletion }, "/p", None, 2).into_string()
        };
        assert!(form("orders.fifo").contains("each message goes to the end of its group"));
        assert!(!form("orders").contains("FIFO"));
    }

    #[test]
    fn empty_pace_fields_have_defaults_and_errors_name_the_field() {
        let form = |rate: &str, watch: &str, percent: &str| PaceForm {
            rate: rate.to_owned(),
            watch_seconds: watch.to_owned(),
            stop_after_failures_percent: percent.to_owned(),
            ..PaceForm::default()
        };
        let read = |form: PaceForm| form.parse_request().unwrap().pace;
        assert_eq!(read(form("", "", "")), RedrivePace::default());
        let given = RedrivePace {
            rate: Some(20),
            watch_seconds: 0,
            stop_after_failures_percent: 100,
            allow_paused: false,
        };
        assert_eq!(read(form(" 20 ", "0", "100")), given);
        for (wrong, why) in [
            (form("0", "", ""), "messages per second: a whole number from 1 to 3000"),
            (form("-1", "", ""), "messages per second: a whole number from 1 to 3000"),
            (form("", "43201", ""), "seconds: a whole number from 0 to 43200"),
            (form("", "", "101"), "percent: a whole number from 0 to 100"),
        ] {
            assert_eq!(wrong.parse_request().unwrap_err().to_string(), why);
        }
    }
}
