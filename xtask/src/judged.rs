//! The requests that AWS's own service models have judged while the tests ran: `tests/support/aws_models.py` judges them,
//! in the emulators.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Deserialize;

use crate::tools::{Failure, read, root, target_dir};

/// The services of the SDK's crates that no emulator answers for: their requests are only in unit tests.
const NOT_EMULATED: [&str; 1] = ["sso"];
const SDK_CRATE: &str = "aws-sdk-";

/// A line of an emulator's file.
#[derive(Deserialize)]
struct Judged {
    service: String,
    operation: String,
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    path: String,
    rule: String,
}

/// The requests of some tests.
#[derive(Default)]
struct Requests {
    /// By service and operation.
    counts: BTreeMap<String, BTreeMap<String, u32>>,
    findings: BTreeMap<String, u32>,
}

/// Forgets the requests of an earlier run.
///
/// # Errors
/// They cannot be removed.
pub(crate) fn forget() -> Result<(), Failure> {
    match fs::remove_dir_all(directory()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unreadable(&error)),
        _ => Ok(()),
    }
}

/// Prints how many requests of how many operations were judged.
///
/// # Errors
/// A request was not as its model says. Or, after all tests, no request of a service was judged.
pub(crate) fn check(after_all_tests: bool) -> Result<(), Failure> {
    let mut requests = Requests::default();
    match fs::read_dir(directory()) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(&error)),
        Ok(files) => {
            for file in files {
                requests.add(&read(&file.map_err(|error| unreadable(&error))?.path())?)?;
            }
        }
    }
    println!("{}", requests.summary());
    requests.refuse_findings()?;
    if after_all_tests { requests.require(&services(&read(&root().join("Cargo.toml"))?)?) } else { Ok(()) }
}

fn unreadable(error: &std::io::Error) -> Failure {
    Failure(format!("{}: {error}", directory().display()))
}

fn directory() -> PathBuf {
    target_dir().join("judged-requests")
}

/// The services that redeliver has a client of.
fn services(manifest: &str) -> Result<BTreeSet<String>, Failure> {
    let manifest: toml::Table =
        toml::from_str(manifest).map_err(|error| Failure(format!("Cargo.toml: {error}")))?;
    let dependencies = manifest["workspace"]["dependencies"].as_table().into_iter().flatten();
    let clients = dependencies.filter_map(|(name, _)| name.strip_prefix(SDK_CRATE));
    Ok(clients.filter(|service| !NOT_EMULATED.contains(service)).map(str::to_owned).collect())
}

impl Requests {
    fn add(&mut self, lines: &str) -> Result<(), Failure> {
        // The last line of a killed emulator may have no end.
        for line in lines.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let judged: Judged = serde_json::from_str(line)
                .map_err(|error| Failure(format!("a judged request that cannot be read: {error}: {line}")))?;
            for Finding { path, rule } in judged.findings {
                let finding = format!("{} {}, {path}: {rule}", judged.service, judged.operation);
                *self.findings.entry(finding).or_default() += 1;
            }
            *self.counts.entry(judged.service).or_default().entry(judged.operation).or_default() += 1;
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let operations: usize = self.counts.values().map(BTreeMap::len).sum();
        let requests: u32 = self.counts.values().flat_map(BTreeMap::values).sum();
        let services = self.counts.len();
        let mut text = format!(
            "AWS's models have judged {requests} requests: {operations} operations of {services} services"
        );
        for (service, operations) in &self.counts {
            let operations: Vec<_> =
                operations.iter().map(|(operation, count)| format!("{operation} {count}")).collect();
            text += &format!("\n{service}: {}", operations.join(", "));
        }
        text
    }

    fn refuse_findings(&self) -> Result<(), Failure> {
        if self.findings.is_empty() {
            return Ok(());
        }
        let findings: Vec<_> =
            self.findings.iter().map(|(finding, count)| format!("{finding} ({count} requests)")).collect();
        Err(Failure(format!("requests that AWS would refuse, by its models:\n{}", findings.join("\n"))))
    }

    fn require(&self, services: &BTreeSet<String>) -> Result<(), Failure> {
        let missing: Vec<_> =
            services.iter().filter(|service| !self.counts.contains_key(*service)).cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Failure(format!(
            "no request was judged of {}: no end-to-end test makes one, or the emulator's requests are not \
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

    fn requests(lines: &str) -> Requests {
        let mut requests = Requests::default();
        requests.add(lines).unwrap();
        requests
    }

    #[test]
    fn judged_requests_are_counted_by_operation() {
        let requests = requests(&[SENT, WRONG, SENT, &SENT[..20]].concat());
        let summary = "AWS's models have judged 3 requests: 2 operations of 2 services\nlambda: Invoke 1\nsqs: SendMessage 2";
        assert_eq!(requests.summary(), summary);
    }

    #[test]
    fn a_finding_fails_the_run_with_its_place_and_rule() {
        let Err(Failure(told)) = requests(&[WRONG, WRONG].concat()).refuse_findings() else {
            panic!("it passes")
        };
        let finding = "\nlambda Invoke, .LogType: not in the enum LogType (2 requests)";
        assert!(told.ends_with(finding), "{told}");
        assert!(requests(SENT).refuse_findings().is_ok());
    }

    #[test]
    fn a_service_whose_requests_were_not_judged_fails_the_run() {
        let manifest = "[workspace.dependencies]\naws-sdk-sqs = \"1\"\naws-sdk-sns = \"1\"\naws-sdk-sso = \"1\"\n\
                        aws-config = \"1\"\n";
        let services = services(manifest).unwrap();
        let Err(Failure(told)) = requests(SENT).require(&services) else { panic!("it passes") };
        assert!(told.starts_with("no request was judged of sns: "), "{told}");
        let sns = SENT.replace("sqs", "sns");
        assert!(requests(&[SENT, &sns].concat()).require(&services).is_ok());
    }
}
