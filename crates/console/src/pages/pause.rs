//! The page that pauses and resumes the functions that read the queues.

use maud::{Markup, html};
use redeliver_core::strategy::Role;
use redeliver_operator::CommandFailure;
use redeliver_operator::pause::{MappingState, is_selected, switch_and_describe};
use redeliver_operator::status::QueueStatus;
use redeliver_operator::status::readers::Readers;
use serde::Deserialize;

use crate::deployment::ConsoleDeployment;
use crate::extract::DeploymentRequest;
use crate::pages::status::render_placeholder;

/// The fields of the form.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SwitchForm {
    wanted: String,
    /// Any value: also pause the readers of the other queues.
    #[serde(default)]
    all: Option<String>,
}

/// Shows the readers, and the buttons that pause and resume them.
pub(crate) fn render_switches(at: &DeploymentRequest) -> Markup {
    html! {
        p { "While paused, the target is not called: messages wait in the source queue and spend no attempts. \
             Messages that are already being processed are finished first. Resuming starts the calls again." }
        @match at.status.last_seen.last_result() {
            Some(seen) => {
                @if let Some(why) = at.status.last_seen.last_error() { p class="warning" role="alert" { (why) } }
                (render_readers(&at.from, &seen.status.queues))
                @if !at.site.guard.read_only { (render_switch_forms(&at.page_path("pause"), &at.name, &seen.status.queues)) }
            }
            // The page reloads when the status has arrived.
            None => div data-live=(at.page_path("pause/live")) { (render_placeholder(at)) },
        }
    }
}

/// Lists the queues' readers. For the final DLQ, which no function should read, it lists only event source mappings.
fn render_readers(dlq: &str, queues: &[QueueStatus]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Readers of the queues" { table {
            thead { tr { th { "Queue" } th { "Read by" } th { "State" } } }
            tbody { @for queue in queues {
                @for mapping in queue.mappings.iter().flatten() {
                    tr { td { (queue.name) } td { (mapping.function) } td { (mapping.state) } }
                }
                @match &queue.readers {
                    None | Some(Readers::EventSourceMapping) => {},
                    Some(_) if queue.arn == dlq => {},
                    Some(readers) => tr { td { (queue.name) } td colspan="2" { (readers.describe()) } },
                }
            } }
        } }
    }
}

/// Shows only the buttons that have an effect: event source mappings can be switched on and off, containers cannot.
fn render_switch_forms(action: &str, name: &str, queues: &[QueueStatus]) -> Markup {
    let has_mapping = |all: bool| {
        let roles = queues.iter().map(|queue| {
            (Role::ALL.iter().copied().find(|role| role.display_name() == queue.role), &queue.mappings)
        });
        let mut selected = roles.filter(|(role, _)| is_selected(*role, all));
        selected.any(|(_, mappings)| mappings.iter().flatten().next().is_some())
    };
    let (has_source_mapping, has_any_mapping) = (has_mapping(false), has_mapping(true));
    html! {
        @if has_any_mapping {
            div class="actions" {
                @if has_source_mapping {
                    form method="post" action=(action) {
                        input type="hidden" name="wanted" value="paused";
                        label class="check" { input type="checkbox" name="all" value="1"; "Also pause retries and annotation" }
                        button { "Pause " (name) }
                    }
                }
                form method="post" action=(action) {
                    input type="hidden" name="wanted" value="resumed";
                    button { "Resume " (name) }
                }
            }
            p class="remark" { "Lambda takes up to a minute; this page waits for up to three minutes." }
        }
        @if !has_source_mapping {
            p { "No event source mapping reads the source queue, so the calls cannot be stopped from here. Stop \
            containers where they run, for example with " code { "kubectl scale deployment NAME --replicas 0" } " or "
                 code { "aws ecs update-service --service NAME --desired-count 0" } "." }
        }
    }
}

/// Pauses or resumes the functions, and returns one line per function.
pub(crate) async fn pause_or_resume_readers(
    deployment: &ConsoleDeployment,
    form: SwitchForm,
) -> Result<String, CommandFailure> {
    match form.wanted.as_str() {
        "paused" => {
            switch_and_describe(
                &deployment.queues,
                &deployment.from,
                &deployment.connection,
                form.all.is_some(),
                MappingState::Disabled,
            )
            .await
        }
        "resumed" => {
            switch_and_describe(
                &deployment.queues,
                &deployment.from,
                &deployment.connection,
                true,
                MappingState::Enabled,
            )
            .await
        }
        _ => Err("a deployment can only be paused or resumed".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use redeliver_operator::queues::event_sources::LambdaMapping;

    use super::*;

    const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-prod-final-dlq";

    fn queue(role: &'static str, arn: &str) -> QueueStatus {
        QueueStatus::new(role, arn, &BTreeMap::new())
    }

    #[test]
    fn only_buttons_with_an_effect_are_offered() {
        let mapped = |role, mappings: &[&str]| {
            let mapping = |function: &&str| LambdaMapping {
                uuid: "u".to_owned(),
                function: (*function).to_owned(),
                source: String::new(),
                reports_failures: true,
                state: "Enabled".to_owned(),
                batch_size: None,
                maximum_concurrency: None,
                last_modified: None,
            };
            let mappings = Some(mappings.iter().map(mapping).collect());
            QueueStatus { mappings, ..queue(role, DLQ) }
        };
        for (source, annotation, final_dlq, buttons, says_why) in [
            (&["f"][..], &["g"][..], &[][..], &["Pause orders", "Resume orders"][..], false),
            (&[], &["g"], &[], &["Resume orders"], true),
            (&[], &[], &[], &[], true),
            (&[], &[], &["h"], &[], true),
        ] {
            let queues =
                [mapped("source", source), mapped("annotation", annotation), mapped("final DLQ", final_dlq)];
            let page = render_switch_forms("/0/pause", "orders", &queues).into_string();
            let found: Vec<_> = page
                .split("<button>")
                .skip(1)
                .filter_map(|rest| rest.split_once("</button>").map(|(words, _)| words))
                .collect();
            assert_eq!((found.as_slice(), page.contains("kubectl scale")), (buttons, says_why), "{page}");
        }
        let unknown = render_switch_forms("/0/pause", "orders", &[queue("source", DLQ)]).into_string();
        assert!(!unknown.contains("<button>"), "the event source mappings are unknown: {unknown}");
    }

    #[test]
    fn a_reader_without_a_mapping_has_its_own_row() {
        let readers = Readers::NobodySeen { minutes: 15 };
        let source = QueueStatus {
            readers: Some(readers.clone()),
            ..queue("source", &DLQ.replace("final-dlq", "source"))
        };
        let row = render_readers(DLQ, &[source]).into_string();
        redeliver_testing::browser::assert_keyboard_reachable(&row);
        let expected = format!("<td>orders-prod-source</td><td colspan=\"2\">{}</td>", readers.describe());
        assert!(row.contains(&expected), "{row}");
    }
}
