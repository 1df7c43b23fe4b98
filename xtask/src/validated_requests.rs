//! The requests that were validated against AWS's service models during the tests, by `tests/support/aws_models.py` in
//! the emulators.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Deserialize;

use crate::tools::{TaskFailure, read_file, target_dir, workspace_root};

/// SDK services without an emulator: their requests occur only in unit tests.
const NOT_EMULATED: [&str; 1] = ["sso"];
const SDK_CRATE: &str = "aws-sdk-";

/// A line in an emulator's file.
#[derive(Deserialize)]
struct ValidatedRequest {
    service: String,
    operation: String,
    findings: Vec<ModelViolation>,
}

#[derive(Deserialize)]
struct ModelViolation {
    path: String,
    rule: String,
}

/// The validated requests of a test run.
#[derive(Default)]
struct ValidatedRequests {
    /// Number of requests by service and operation.
    counts: BTreeMap<String, BTreeMap<String, u32>>,
    findings: BTreeMap<String, u32>,
}

/// Removes the requests recorded by an earlier run.
///
/// # Errors
/// The files cannot be removed.
pub(crate) fn clear_recorded_requests() -> Result<(), TaskFailure> {
    match fs::remove_dir_all(requests_folder()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(folder_failure(&error)),
        _ => Ok(()),
    }
}

/// Prints the number of validated requests and operations.
///
/// # Errors
/// A request violates its model or, after all tests, a service has no validated request.
pub(crate) fn check_requests(after_all_tests: bool) -> Result<(), TaskFailure> {
    let mut requests = ValidatedRequests::default();
    match fs::read_dir(requests_folder()) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(folder_failure(&error)),
        Ok(files) => {
            for file in files {
                requests.add_lines(&read_file(&file.map_err(|error| folder_failure(&error))?.path())?)?;
            }
        }
    }
    println!("{}", requests.summary());
    requests.require_no_findings()?;
    if after_all_tests {
        requests.require_services(&client_services(&read_file(&workspace_root().join("Cargo.toml"))?)?)
    } else {
        Ok(())
    }
}

fn folder_failure(error: &std::io::Error) -> TaskFailure {
    TaskFailure(format!("{}: {error}", requests_folder().display()))
}

fn requests_folder() -> PathBuf {
    target_dir().join("validated-requests")
}

/// Returns the services for which redeliver has a client.
fn client_services(manifest: &str) -> Result<BTreeSet<String>, TaskFailure> {
    let manifest: toml::Table =
        toml::from_str(manifest).map_err(|error| TaskFailure(format!("Cargo.toml: {error}")))?;
    let dependencies = manifest["workspace"]["dependencies"].as_table().into_iter().flatten();
    let clients = dependencies.filter_map(|(name, _)| name.strip_prefix(SDK_CRATE));
    Ok(clients.filter(|service| !NOT_EMULATED.contains(service)).map(str::to_owned).collect())
}

impl ValidatedRequests {
    fn add_lines(&mut self, lines: &str) -> Result<(), TaskFailure> {
        // The last line written by a killed emulator can be incomplete.
        for line in lines.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let validated: ValidatedRequest = serde_json::from_str(line)
                .map_err(|error| TaskFailure(format!("cannot read a validated request: {error}: {line}")))?;
            for ModelViolation { path, rule } in validated.findings {
                let finding = format!("{} {}, {path}: {rule}", validated.service, validated.operation);
                *self.findings.entry(finding).or_default() += 1;
            }
            *self.counts.entry(validated.service).or_default().entry(validated.operation).or_default() += 1;
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let operations: usize = self.counts.values().map(BTreeMap::len).sum();
        let requests: u32 = self.counts.values().flat_map(BTreeMap::values).sum();
        let services = self.counts.len();
        let mut text = format!(
            "validated against AWS's models: {requests} requests, {operations} operations of {services} services"
        );
        for (service, operations) in &self.counts {
            let operations: Vec<_> =
                operations.iter().map(|(operation, count)| format!("{operation} {count}")).collect();
            text += &format!("\n{service}: {}", operations.join(", "));
        }
        text
    }

    fn require_no_findings(&self) -> Result<(), TaskFailure> {
        if self.findings.is_empty() {
            return Ok(());
        }
        let findings: Vec<_> =
            self.findings.iter().map(|(finding, count)| format!("{finding} ({count} requests)")).collect();
        Err(TaskFailure(format!("requests that AWS's models reject:\n{}", findings.join("\n"))))
    }

    fn require_services(&self, services: &BTreeSet<String>) -> Result<(), TaskFailure> {
        let missing: Vec<_> =
            services.iter().filter(|service| !self.counts.contains_key(*service)).cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(TaskFailure(format!(
            "no request was validated for {}: no end-to-end test makes one, or the emulator's requests are not \
             recorded (tests/support/aws_models.py)",
            missing.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = "{\"service\": \"sqs\", \"operation\": \"SendMessage\", \"findings\": []}\n";
    const WRONG: &str = "{\"service\": \"lambda\", \"operation\": \"Invoke\", \
                         \"findings\": [{\"path\": \".LogType\", \"rule\": \"not in the enum LogType\"}]}\n";

    fn parse_requests(lines: &str) -> ValidatedRequests {
        let mut requests = ValidatedRequests::default();
        requests.add_lines(lines).unwrap();
        requests
    }

    #[test]
    fn validated_requests_are_counted_by_operation() {
        let requests = parse_requests(&[SENT, WRONG, SENT, &SENT[..20]].concat());
        let summary = "validated against AWS's models: 3 requests, 2 operations of 2 services\nlambda: Invoke 1\nsqs: SendMessage 2";
        assert_eq!(requests.summary(), summary);
    }

    #[test]
    fn a_model_violation_fails_the_run_and_reports_its_path_and_rule() {
        let Err(TaskFailure(reported)) = parse_requests(&[WRONG, WRONG].concat()).require_no_findings()
        else {
            panic!("a finding must fail the run")
        };
        let finding = "\nlambda Invoke, .LogType: not in the enum LogType (2 requests)";
        assert!(reported.ends_with(finding), "{reported}");
        assert!(parse_requests(SENT).require_no_findings().is_ok());
    }

    #[test]
    fn a_service_without_validated_requests_fails_the_run() {
        let manifest = "[workspace.dependencies]\naws-sdk-sqs = \"1\"\naws-sdk-sns = \"1\"\naws-sdk-sso = \"1\"\n\
                        aws-config = \"1\"\n";
        let services = client_services(manifest).unwrap();
        let Err(TaskFailure(reported)) = parse_requests(SENT).require_services(&services) else {
            panic!("a service without requests must fail the run")
        };
        assert!(reported.starts_with("no request was validated for sns: "), "{reported}");
        let sns = SENT.replace("sqs", "sns");
        assert!(parse_requests(&[SENT, &sns].concat()).require_services(&services).is_ok());
    }
}
