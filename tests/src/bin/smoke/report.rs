//! The report of a run, as Markdown and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use redeliver_tests::settings::{epoch_millis, target_dir};
use serde::Serialize;

use crate::account::AccountIdentity;

#[derive(Serialize)]
pub(crate) struct SmokeReport {
    prefix: String,
    account: String,
    region: String,
    is_emulated: bool,
    began_millis: u128,
    checks: Vec<Check>,
    figures: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    outcome: SmokeOutcome,
    details: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum SmokeOutcome {
    Passed,
    Failed,
    NotCheckedHere,
}

/// The only checks that may be skipped on an emulator.
const UNSUPPORTED_ON_EMULATORS: [(&str, &str); 3] = [
    ("a permanent failure is not retried", "ministack reports every function error as Runtime.HandlerError"),
    ("a send to the final DLQ is refused", "ministack does not enforce queue policies"),
    ("the alarm final-dlq-not-empty fires", "ministack does not evaluate alarms"),
];

impl SmokeReport {
    pub(crate) fn begin(prefix: &str, identity: &AccountIdentity, is_emulated: bool) -> Self {
        Self {
            prefix: prefix.to_owned(),
            account: identity.account.clone(),
            region: identity.region.clone(),
            is_emulated,
            began_millis: epoch_millis(),
            checks: Vec::new(),
            figures: BTreeMap::new(),
        }
    }

    pub(crate) fn elapsed_seconds(&self) -> f64 {
        to_seconds(epoch_millis() - self.began_millis)
    }

    pub(crate) fn add_pass(&mut self, name: &'static str, details: String) {
        self.add_result(name, SmokeOutcome::Passed, details);
    }

    pub(crate) fn add_failure(&mut self, name: &'static str, details: String) {
        self.add_result(name, SmokeOutcome::Failed, details);
    }

    /// Returns true if this check is skipped here, and records that in the report. Only listed checks can be skipped.
    pub(crate) fn skip_if_unsupported(&mut self, name: &'static str) -> bool {
        let known = UNSUPPORTED_ON_EMULATORS.iter().find(|(known, _)| *known == name);
        let Some((_, reason)) = known.filter(|_| self.is_emulated) else { return false };
        self.add_result(name, SmokeOutcome::NotCheckedHere, (*reason).to_owned());
        true
    }

    pub(crate) fn add_check(&mut self, name: &'static str, found: Result<String, String>) {
        match found {
            Ok(details) => self.add_pass(name, details),
            Err(details) => self.add_failure(name, details),
        }
    }

    fn add_result(&mut self, name: &'static str, outcome: SmokeOutcome, details: String) {
        eprintln!("{}: {name}{}{details}", outcome.label(), if details.is_empty() { "" } else { ": " });
        self.checks.push(Check { name, outcome, details });
    }

    pub(crate) fn add_figure(&mut self, name: &'static str, value: f64) {
        self.figures.insert(name, value);
    }

    pub(crate) fn add_cost(&mut self, dollars: f64) {
        self.add_figure("cost_dollars_at_list_price", dollars);
        self.add_figure("seconds_in_all", self.elapsed_seconds());
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.checks.iter().all(|check| check.outcome != SmokeOutcome::Failed)
    }

    pub(crate) fn to_markdown(&self) -> String {
        let place = if self.is_emulated { "an emulator" } else { "AWS" };
        let mut page = format!(
            "# Smoke test of redeliver on {place}\n\nStack {}, account {}, region {}.\n\n| | check | |\n| --- | --- | --- |\n",
            self.prefix, self.account, self.region
        );
        for Check { name, outcome, details } in &self.checks {
            let details = details.replace('|', "\\|").replace('\n', " ");
            writeln!(page, "| {} | {name} | {details} |", outcome.label())
                .expect("writing to a String succeeds");
        }
        page += "\n| figure | |\n| --- | --- |\n";
        for (name, value) in &self.figures {
            writeln!(page, "| {} | {value:.3} |", name.replace('_', " "))
                .expect("writing to a String succeeds");
        }
        page
    }

    /// Writes the Markdown page and a JSON file beside it, and returns the page's path.
    pub(crate) fn write_files(&self) -> Result<PathBuf, String> {
        let directory = target_dir().join("smoke");
        let page = directory.join(format!("{}.md", self.prefix));
        let json = serde_json::to_string_pretty(self).expect("numbers and strings are JSON");
        std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(&page, self.to_markdown()))
            .and_then(|()| std::fs::write(page.with_extension("json"), json))
            .map_err(|error| format!("{}: {error}", page.display()))?;
        Ok(page)
    }
}

impl SmokeOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::NotCheckedHere => "not checked here",
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
fn to_seconds(millis: u128) -> f64 {
    millis as f64 / 1000.0
}
