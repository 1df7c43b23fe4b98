//! Runs `redeliver preflight` on the stacks that the CDK is about to deploy.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use serde_json::Value;

use crate::tools::{TaskFailure, cargo_command, read_file, target_dir};

/// The option to deploy a paused stack, which can resume it.
pub(super) const ALLOW: &str = "--allow-resume";

/// A stack in the CDK's output.
#[derive(Debug, PartialEq, Eq)]
struct ManifestStack {
    name: String,
    /// `None` if the stack can be deployed to any region.
    region: Option<String>,
    /// The name of the template file in the CDK's output.
    template: String,
}

/// The relevant part of the output of `redeliver preflight`.
#[derive(Debug, Deserialize)]
struct PreflightOutput {
    /// The paused event source mappings; `None` if unknown.
    paused: Option<Vec<PausedMapping>>,
    event_sources: Option<Vec<Recommendation>>,
    taken_queues: Option<Vec<String>>,
    concurrency: Option<Recommendation>,
}

#[derive(Debug, Deserialize)]
struct Recommendation {
    /// The recommended command or change, if any.
    advice: Option<String>,
}

#[derive(Debug, Deserialize)]
struct PausedMapping {
    queue: String,
    function: String,
    state: String,
}

/// Returns an empty folder for the CDK's output.
pub(super) fn new_assembly() -> PathBuf {
    let assembly = target_dir().join("cdk-preflight");
    let _might_not_exist = fs::remove_dir_all(&assembly);
    assembly
}

/// Checks each stack before it is deployed, and asks the user if one is paused.
///
/// # Errors
/// A stack is paused, and the user does not confirm its deployment.
pub(super) fn check_stacks(
    assembly: &Path,
    arguments: &[String],
    is_allowed: bool,
) -> Result<(), TaskFailure> {
    let Ok(manifest) = read_file(&assembly.join("manifest.json")) else {
        // This happens with --app and a previously synthesized folder.
        println!(
            "could not check for a paused deployment or the account's concurrency (run `redeliver preflight`)"
        );
        return Ok(());
    };
    for stack in read_stacks(&manifest)? {
        let Some(found) = run_preflight(assembly, &stack, arguments) else { continue };
        let PreflightOutput { paused, event_sources, taken_queues, concurrency } = found;
        for queue in taken_queues.into_iter().flatten() {
            println!("warning: {queue} exists, so {} cannot create it", stack.name);
        }
        let advised = event_sources.into_iter().flatten().chain(concurrency);
        advised
            .filter_map(|Recommendation { advice }| advice)
            .for_each(|advice| println!("warning: {advice}"));
        let paused = paused.unwrap_or_default();
        if !paused.is_empty() && !is_allowed && !ask_for_consent(&stack, &paused)? {
            return Err(TaskFailure(render_refusal(&stack, &paused)));
        }
    }
    Ok(())
}

/// Returns the stacks in a manifest ("Cloud Assembly Specification", aws/aws-cdk).
fn read_stacks(manifest: &str) -> Result<Vec<ManifestStack>, TaskFailure> {
    let manifest: Value = serde_json::from_str(manifest)
        .map_err(|error| TaskFailure(format!("the CDK's manifest.json: {error}")))?;
    let artifacts = manifest["artifacts"].as_object().into_iter().flatten();
    let stacks = artifacts.filter(|(_, artifact)| artifact["type"] == "aws:cloudformation:stack");
    Ok(stacks
        .map(|(id, artifact)| {
            let region = artifact["environment"].as_str().and_then(|place| place.rsplit('/').next());
            ManifestStack {
                name: artifact["properties"]["stackName"].as_str().unwrap_or(id).to_owned(),
                region: region.filter(|region| *region != "unknown-region").map(str::to_owned),
                template: artifact["properties"]["templateFile"].as_str().unwrap_or_default().to_owned(),
            }
        })
        .collect())
}

/// Runs `redeliver preflight` on a stack. Returns `None` if that fails; standard error says why.
fn run_preflight(assembly: &Path, stack: &ManifestStack, arguments: &[String]) -> Option<PreflightOutput> {
    let mut command = cargo_command(&["run", "--quiet", "--locked", "--bin", "redeliver", "--", "preflight"]);
    command.args(["--format", "json", "--stack", &stack.name]).args(profile_arguments(arguments));
    command.arg("--template").arg(assembly.join(&stack.template));
    command.args(stack.region.iter().flat_map(|region| ["--region", region]));
    let printed = command.stderr(Stdio::inherit()).output().ok()?;
    serde_json::from_slice(&printed.stdout).ok()
}

/// Returns the `--profile` option from the CDK's arguments; `redeliver` accepts the same option.
fn profile_arguments(arguments: &[String]) -> Vec<String> {
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        if argument == "--profile" {
            return [argument].into_iter().chain(left.next()).cloned().collect();
        }
        if argument.starts_with("--profile=") {
            return vec![argument.clone()];
        }
    }
    Vec::new()
}

/// Asks for consent on a terminal. Returns false without a terminal.
fn ask_for_consent(stack: &ManifestStack, paused: &[PausedMapping]) -> Result<bool, TaskFailure> {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Ok(false);
    }
    println!("{}. Deploy anyway? [y/N]", describe_paused(stack, paused));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| TaskFailure(format!("the answer cannot be read: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn render_refusal(stack: &ManifestStack, paused: &[PausedMapping]) -> String {
    format!(
        "{}; run `redeliver resume --stack {} --apply` first, or add {ALLOW} (docs/operate/pause.md)",
        describe_paused(stack, paused),
        stack.name
    )
}

fn describe_paused(stack: &ManifestStack, paused: &[PausedMapping]) -> String {
    let mappings = paused
        .iter()
        .map(|PausedMapping { queue, function, state }| format!("{function} at {queue} is {state}"));
    let mappings = mappings.collect::<Vec<_>>().join(", ");
    format!(
        "{} is paused ({mappings}), and a deployment may resume it: calls to the target start again",
        stack.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stack_in_a_manifest_is_read_with_its_own_region() {
        let manifest = r#"{"version": "1", "artifacts": {
            "Tree": {"type": "cdk:tree"},
            "a": {"type": "aws:cloudformation:stack", "environment": "aws://unknown-account/unknown-region", "properties": {"templateFile": "a.json"}},
            "b": {"type": "aws:cloudformation:stack", "environment": "aws://123456789012/eu-west-1", "properties": {"stackName": "B", "templateFile": "b.json"}}
        }}"#;
        let expected =
            [("a", None, "a.json"), ("B", Some("eu-west-1"), "b.json")].map(|(name, region, template)| {
                ManifestStack {
                    name: name.to_owned(),
                    region: region.map(str::to_owned),
                    template: template.to_owned(),
                }
            });
        assert_eq!(read_stacks(manifest).unwrap(), expected);
        assert_eq!(read_stacks("{}").unwrap(), []);
        assert!(read_stacks("no").is_err());
    }

    #[test]
    fn preflight_uses_the_profile_given_to_the_cdk() {
        let of =
            |line: &str| profile_arguments(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ");
        assert_eq!(of("deploy --profile ops --all"), "--profile ops");
        assert_eq!(of("deploy --profile=ops"), "--profile=ops");
        assert_eq!([of("deploy --all"), of("deploy --profile")], ["", "--profile"]);
    }

    #[test]
    fn a_preflight_refusal_names_paused_stacks_and_the_remedy() {
        let stack =
            ManifestStack { name: "redeliver-prod".to_owned(), region: None, template: String::new() };
        let found: PreflightOutput = serde_json::from_str(
            r#"{"schema": "redeliver.preflight/1", "paused": [{"queue": "q", "function": "f", "state": "Disabled"}], "event_sources": null, "concurrency": null, "problems": []}"#,
        )
        .unwrap();
        assert_eq!(
            render_refusal(&stack, &found.paused.unwrap()),
            "redeliver-prod is paused (f at q is Disabled), and a deployment may resume it: calls to the target start again; \
             run `redeliver resume --stack redeliver-prod --apply` first, or add --allow-resume (docs/operate/pause.md)"
        );
    }
}
