//! The scenarios: every path that a message can take, and features that only AWS has.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{Message, MessageAttributeValue, MessageSystemAttributeName as System};
use redeliver_tests::deployment::Outputs;
use redeliver_tests::settings::{debug_binary, epoch_millis, target_dir};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use crate::account::SmokeAccount;
use crate::report::SmokeReport;

const PATIENCE_SECONDS: u32 = 300;
/// The alarm evaluates periods of five minutes, and SQS metrics can be a few minutes late.
const ALARM_PATIENCE_SECONDS: u32 = 1200;
/// The visibility timeout of a receive, which hides its messages from the next receive.
const HIDDEN_SECONDS: i32 = 5;
const ALARM: &str = "final-dlq-not-empty";

pub(crate) struct SmokeTest<'a> {
    account: &'a SmokeAccount,
    prefix: &'a str,
    outputs: &'a Outputs,
    calls: Vec<LoggedCall>,
}

/// A call to the target, as reported by the target itself.
#[derive(Deserialize)]
struct LoggedCall {
    id: String,
    attempt: u32,
    generation: u32,
    at: f64,
    ok: bool,
}

const SUCCEEDS: &str = "00000001-5a0c-4000-8000-000000000000";
const RECOVERS: &str = "00000002-5a0c-4000-8000-000000000000";
const EXHAUSTED: &str = "00000003-5a0c-4000-8000-000000000000";
const PERMANENT: &str = "00000004-5a0c-4000-8000-000000000000";
const INVALID: &str = "not a message";

impl<'a> SmokeTest<'a> {
    pub(crate) fn new(account: &'a SmokeAccount, prefix: &'a str, outputs: &'a Outputs) -> Self {
        Self { account, prefix, outputs, calls: Vec::new() }
    }

    /// Runs the scenarios and adds their results to the report.
    ///
    /// # Errors
    /// If the run cannot continue; failed checks are in the report.
    pub(crate) async fn run_scenarios(mut self, report: &mut SmokeReport) -> Result<(), String> {
        let sent_at = now();
        self.send_messages().await?;
        let success = self.wait_until_called("succeeds", |call| call.id == SUCCEEDS && call.ok).await;
        report.add_check("a message is processed", success);
        let recovered = self.wait_until_called("recovers", |call| call.id == RECOVERS && call.ok).await;
        report.add_check("a message that fails twice is processed", recovered);
        self.report_figures(sent_at, report);
        let explained = self.wait_for_dead_letters().await;
        report
            .add_check("exhausted, permanent and invalid messages are explained in the final DLQ", explained);
        self.check_permanent_failure(report).await;
        self.check_denial(report).await;
        self.check_alarm(report).await;
        let redriven = self.run_redrive().await;
        report.add_check("a redriven dead letter is processed", redriven);
        let moved = self.check_move_by_sqs(report).await;
        report.add_check("a message moved by SQS keeps its receive count, attributes and send time", moved);
        Ok(())
    }

    fn queue_url(&self, queue: &str) -> Result<&str, String> {
        self.outputs
            .get(&format!("{queue}Url"))
            .map(String::as_str)
            .ok_or_else(|| format!("no output {queue}Url"))
    }

    async fn send_messages(&self) -> Result<(), String> {
        let message = |id: &str, wanted: &str| {
            json!({ "metadata": { "message_id": id }, "data": { "wanted": wanted } }).to_string()
        };
        let bodies = [
            message(SUCCEEDS, "ok"),
            message(RECOVERS, "recovers"),
            message(EXHAUSTED, "exhausted"),
            message(PERMANENT, "permanent"),
            INVALID.to_owned(),
        ];
        for body in bodies {
            let request =
                self.account.sqs.send_message().queue_url(self.queue_url("Source")?).message_body(body);
            request.send().await.map_err(|error| format!("SendMessage: {}", error_code(&error)))?;
        }
        Ok(())
    }

    async fn wait_until_called(
        &mut self,
        event: &str,
        matches: impl Fn(&LoggedCall) -> bool,
    ) -> Result<String, String> {
        for _ in 0..PATIENCE_SECONDS {
            if let Some(call) = self.calls.iter().find(|call| matches(call)) {
                return Ok(format!("at attempt {}", call.attempt));
            }
            self.receive_calls().await?;
        }
        Err(format!("{event}: not within {PATIENCE_SECONDS} s"))
    }

    /// Receives the calls reported by the target. Returns true if there were any.
    async fn receive_calls(&mut self) -> Result<bool, String> {
        let url = self.queue_url("Calls")?.to_owned();
        let messages = self.receive_messages(&url, HIDDEN_SECONDS).await?;
        for message in &messages {
            let call = serde_json::from_str(message.body().unwrap_or_default());
            self.calls.push(call.map_err(|error| format!("a report of the target is not a call: {error}"))?);
            self.delete_message(&url, message).await?;
        }
        Ok(!messages.is_empty())
    }

    fn report_figures(&self, sent_at: f64, report: &mut SmokeReport) {
        let calls_of = |id: &str| {
            let mut calls: Vec<_> =
                self.calls.iter().filter(|call| call.id == id).map(|call| call.at).collect();
            calls.sort_by(f64::total_cmp);
            calls
        };
        if let Some(at) = calls_of(SUCCEEDS).first() {
            report.add_figure("seconds_to_the_first_call", at - sent_at);
        }
        let retries = calls_of(RECOVERS);
        for (name, pair) in
            ["seconds_to_retry_1_of_2", "seconds_to_retry_2_of_2"].into_iter().zip(retries.windows(2))
        {
            report.add_figure(name, pair[1] - pair[0]);
        }
    }

    async fn wait_for_dead_letters(&self) -> Result<String, String> {
        let expected = BTreeMap::from([
            (EXHAUSTED, "RETRY_ATTEMPT_EXCEEDED"),
            (PERMANENT, "NON_RETRYABLE_ERROR"),
            (INVALID, "INVALID_MESSAGE_FORMAT"),
        ]);
        let mut found = BTreeMap::new();
        for _ in 0..PATIENCE_SECONDS {
            for message in self.receive_messages(self.queue_url("FinalDlq")?, HIDDEN_SECONDS).await? {
                let body = message.body().unwrap_or_default();
                let id = expected.keys().find(|id| body.contains(**id)).copied().unwrap_or("another message");
                found.insert(id, message_attribute(&message, "ErrorType"));
            }
            if found.len() >= expected.len() {
                // Emulators use other names for function errors.
                let is_expected = found.iter().all(|(id, error)| {
                    expected.get(id) == Some(&error.as_str())
                        || (*id == PERMANENT && self.account.is_emulated)
                });
                return if is_expected { Ok(String::new()) } else { Err(format!("{found:?}")) };
            }
        }
        Err(format!("only {found:?} within {PATIENCE_SECONDS} s"))
    }

    /// Checks that the target was called only once. The dead letter has already arrived, so no more calls can follow.
    async fn check_permanent_failure(&mut self, report: &mut SmokeReport) {
        let name = "a permanent failure is not retried";
        if report.skip_if_unsupported(name) {
            return;
        }
        let found = self.wait_until_called("fails permanently", |call| call.id == PERMANENT).await;
        let counted = async {
            while self.receive_calls().await? {}
            match self.calls.iter().filter(|call| call.id == PERMANENT).count() {
                1 => found,
                calls => Err(format!("{calls} calls")),
            }
        };
        report.add_check(name, counted.await);
    }

    async fn check_denial(&self, report: &mut SmokeReport) {
        let name = "a send to the final DLQ is refused";
        if report.skip_if_unsupported(name) {
            return;
        }
        let refused = async {
            let sent = self
                .account
                .sqs
                .send_message()
                .queue_url(self.queue_url("FinalDlq")?)
                .message_body("x")
                .send()
                .await;
            match sent {
                Ok(_) => Err("it was accepted although the queue's policy denies it".to_owned()),
                Err(error) => match error_code(&error) {
                    denied if denied.contains("AccessDenied") => Ok(denied),
                    other => Err(other),
                },
            }
        };
        report.add_check(name, refused.await);
    }

    async fn check_alarm(&self, report: &mut SmokeReport) {
        let name = "the alarm final-dlq-not-empty fires";
        if report.skip_if_unsupported(name) {
            return;
        }
        let began = report.elapsed_seconds();
        let fired = self.wait_for_alarm().await;
        report.add_figure("seconds_to_the_alarm", report.elapsed_seconds() - began);
        report.add_check(name, fired);
    }

    async fn wait_for_alarm(&self) -> Result<String, String> {
        for waited in (0..ALARM_PATIENCE_SECONDS).step_by(15) {
            let alarms = self.account.alarm_states(self.prefix).await?;
            let state =
                alarms.iter().find(|(name, _)| name.ends_with(ALARM)).map(|(_, state)| state.as_str());
            match state {
                None => return Err(format!("no alarm {ALARM} among {:?}", alarms.keys())),
                Some("ALARM") => return Ok(String::new()),
                Some(other) => {
                    eprintln!("{ALARM} is {other} after {waited} s of at most {ALARM_PATIENCE_SECONDS} s ...")
                }
            }
            sleep(Duration::from_secs(15)).await;
        }
        Err(format!("not within {ALARM_PATIENCE_SECONDS} s"))
    }

    /// Redrives with the operator's own command, from a queue that does not accept sends.
    async fn run_redrive(&mut self) -> Result<String, String> {
        // The messages hidden by the last receive must be visible again.
        sleep(Duration::from_secs(u64::from(HIDDEN_SECONDS.unsigned_abs()))).await;
        let mut command = self.account.aws_command(&debug_binary("redeliver"));
        command.args(["redrive", "--prefix", self.prefix, "--ids", EXHAUSTED, "--apply"]);
        let journal = target_dir().join("smoke").join(format!("{}-{}", self.prefix, epoch_millis()));
        std::fs::create_dir_all(&journal).map_err(|error| format!("{}: {error}", journal.display()))?;
        let run =
            command.current_dir(&journal).output().await.map_err(|error| format!("redeliver: {error}"))?;
        if !run.status.success() {
            return Err(format!("{}: {}", run.status, String::from_utf8_lossy(&run.stderr)));
        }
        // All messages were sent, so the journal is not needed.
        let _left_in_target = std::fs::remove_dir_all(&journal);
        self.wait_until_called("redriven dead letter", |call| {
            call.id == EXHAUSTED && call.generation == 1 && call.ok
        })
        .await
    }

    async fn check_move_by_sqs(&self, report: &mut SmokeReport) -> Result<String, String> {
        let (moving, moved) = (self.queue_url("Moving")?, self.queue_url("Moved")?);
        let attribute = MessageAttributeValue::builder().data_type("String").string_value("kept");
        let attribute = attribute.build().map_err(|error| error.to_string())?;
        let request = self.account.sqs.send_message().queue_url(moving).message_body("moved");
        let sent = request.message_attributes("mark", attribute).send().await;
        let id = sent.map_err(|error| format!("SendMessage: {}", error_code(&error)))?.message_id;
        let mut first = None;
        for _ in 0..PATIENCE_SECONDS {
            // SQS moves the message on its second receive.
            first = self.receive_messages(moving, 0).await?.pop().or(first);
            if let Some(message) = self.receive_messages(moved, HIDDEN_SECONDS).await?.pop() {
                let count = system_attribute(&message, &System::ApproximateReceiveCount);
                report.add_figure("receives_that_a_moved_message_has", count.parse().unwrap_or(f64::NAN));
                let before = first.as_ref().map(|first| system_attribute(first, &System::SentTimestamp));
                let kept = (message.message_id == id, self::message_attribute(&message, "mark"));
                let same_time =
                    before.as_deref() == Some(system_attribute(&message, &System::SentTimestamp).as_str());
                let from = system_attribute(&message, &System::DeadLetterQueueSourceArn);
                return if kept == (true, "kept".to_owned()) && same_time && !from.is_empty() {
                    Ok(format!("{count} receives, from {from}"))
                } else {
                    Err(format!(
                        "id and attribute: {kept:?}; sent at the same time: {same_time}; from {from:?}"
                    ))
                };
            }
        }
        Err(format!("not moved within {PATIENCE_SECONDS} s"))
    }

    async fn receive_messages(&self, url: &str, hidden_seconds: i32) -> Result<Vec<Message>, String> {
        let request = self.account.sqs.receive_message().queue_url(url).max_number_of_messages(10);
        let request = request.wait_time_seconds(1).visibility_timeout(hidden_seconds);
        let request = request.message_attribute_names("All").message_system_attribute_names(System::All);
        let answer =
            request.send().await.map_err(|error| format!("ReceiveMessage: {}", error_code(&error)))?;
        Ok(answer.messages.unwrap_or_default())
    }

    async fn delete_message(&self, url: &str, message: &Message) -> Result<(), String> {
        let handle = message.receipt_handle().unwrap_or_default();
        let request = self.account.sqs.delete_message().queue_url(url).receipt_handle(handle);
        request.send().await.map(drop).map_err(|error| format!("DeleteMessage: {}", error_code(&error)))
    }
}

fn now() -> f64 {
    Duration::from_millis(u64::try_from(epoch_millis()).unwrap_or(u64::MAX)).as_secs_f64()
}

fn error_code<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> String {
    error.code().unwrap_or("no answer").to_owned()
}

fn message_attribute(message: &Message, name: &str) -> String {
    let attribute = message.message_attributes().and_then(|attributes| attributes.get(name));
    attribute.and_then(MessageAttributeValue::string_value).unwrap_or_default().to_owned()
}

fn system_attribute(message: &Message, name: &System) -> String {
    message.attributes().and_then(|attributes| attributes.get(name)).cloned().unwrap_or_default()
}
