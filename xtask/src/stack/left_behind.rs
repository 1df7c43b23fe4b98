//! Refuses deployments that would leave queues behind, with their messages and without a consumer.

use std::fmt::Write as _;

use crate::tools::TaskFailure;

/// The option to deploy even though queues would be left behind, because they are empty or still have a consumer.
pub(super) const ALLOW: &str = "--allow-queue-replacement";

/// Flags that must not be passed to `cdk diff`: it would read a following stack name as the flag's value, or print
/// nothing.
const NOT_FOR_DIFF: [&str; 18] = [
    "--all",
    "--asset-prebuild",
    "--execute",
    "--no-execute",
    "--express",
    "--force",
    "-f",
    "--hotswap",
    "--hotswap-fallback",
    "--ignore-no-stacks",
    "--logs",
    "--previous-parameters",
    "--revert-drift",
    "--rollback",
    "--no-rollback",
    "--watch",
    "--quiet",
    "-q",
];

/// Returns the arguments for the `cdk diff` that corresponds to a `cdk deploy`, or `None` if the arguments do not
/// request a deployment.
pub(super) fn diff_arguments(arguments: &[String]) -> Option<Vec<String>> {
    let asks_for_help = arguments.iter().any(|argument| argument == "--help" || argument == "-h");
    let deploy = arguments.iter().position(|argument| argument == "deploy").filter(|_| !asks_for_help)?;
    let mut diff = Vec::new();
    let mut left = arguments.iter().enumerate();
    while let Some((index, argument)) = left.next() {
        match argument.as_str() {
            "deploy" if index == deploy => diff.push("diff".to_owned()),
            "--method" | "-m" | "--output" | "-o" => drop(left.next()),
            other
                if ["--method=", "--output="].iter().any(|option| other.starts_with(option))
                    || NOT_FOR_DIFF.contains(&other) => {}
            other => diff.push(other.to_owned()),
        }
    }
    // Templates are compared without a change set, a difference is not an error, and the report is written to standard
    // error even in CI.
    diff.extend(["--method", "template", "--fail=false", "--ci=false", "--no-color"].map(str::to_owned));
    Some(diff)
}

/// Refuses a deployment that would replace or remove queues according to the report from `cdk diff`.
///
/// # Errors
/// Queues would be replaced or removed, or the report cannot be parsed.
pub(super) fn refuse_replacements(diff: &str) -> Result<(), TaskFailure> {
    // The last line of the report. Without it, the report might be truncated or have another format.
    if !diff.contains("Number of stacks with differences: ") {
        return Err(TaskFailure(format!(
            "cdk diff does not report whether queues would be replaced; to deploy anyway, add {ALLOW}:\n{diff}"
        )));
    }
    let queues = replaced_queues(diff);
    if queues.is_empty() {
        return Ok(());
    }
    let mut reported =
        String::from("this would leave queues behind, with all their messages and without a reader:\n");
    for queue in queues {
        writeln!(reported, "  {queue}").expect("writing to a String cannot fail");
    }
    write!(
        reported,
        "deploy beside them under another prefix or stage, or as a second construct, and remove the old ones when they are empty \
         (docs/deploy/upgrade.md); if they are empty now, add {ALLOW}"
    )
    .expect("writing to a String cannot fail");
    Err(TaskFailure(reported))
}

/// Returns `STACK: PATH ID CHANGE` for each queue that would be replaced or removed.
fn replaced_queues(diff: &str) -> Vec<String> {
    let mut stack = "";
    let mut found = Vec::new();
    for line in diff.lines() {
        if let Some(named) = line.strip_prefix("Stack ") {
            stack = named.split(" (").next().unwrap_or(named);
        }
        let changed = line.strip_prefix("[~] AWS::SQS::Queue ");
        let replaced =
            changed.filter(|queue| queue.ends_with(" replace") || queue.ends_with(" may be replaced"));
        let removed = line.strip_prefix("[-] AWS::SQS::Queue ");
        found.extend(replaced.or(removed).map(|queue| format!("{stack}: {queue}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{diff_arguments, refuse_replacements};

    /// The pinned CDK's report on a stack deployed under another prefix, abridged.
    const REPLACED: &str = "\
start: Building Redeliver/Redeliver/MessageProcessor/Code
Stack Orders (aws://000000000000/us-east-1)
Resources
[~] AWS::SQS::Queue Retries/FinalDlq RetriesFinalDlqD1F8452E replace
 ├─ [~] QueueName (requires replacement)
 │   ├─ [-] orders-prod-final-dlq
 │   └─ [+] other-prod-final-dlq
 └─ [~] RedriveAllowPolicy
[~] AWS::SQS::Queue Retries/AnnotationQueue RetriesAnnotationQueue6CBAA927
[+] AWS::SQS::Queue Retries/SourceQueue RetriesSourceQueue5F09C119
[~] AWS::Lambda::Function Retries/MessageProcessor RetriesMessageProcessorA1B2C3D4 replace

Stack Redeliver (redeliver-prod) (aws://000000000000/us-east-1)
Resources
[-] AWS::SQS::Queue Redeliver/IntermediateDlq RedeliverIntermediateDlq33A75BA0 orphan
[~] AWS::SQS::Queue Redeliver/SourceQueue RedeliverSourceQueue377AD49C may be replaced
[-] AWS::SQS::QueuePolicy Redeliver/IntermediateDlq/Policy RedeliverIntermediateDlqPolicy01234567 destroy

✨  Number of stacks with differences: 2
";

    fn split_words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_refusal_names_each_replaced_or_removed_queue() {
        assert_eq!(
            refuse_replacements(REPLACED).unwrap_err().0,
            "this would leave queues behind, with all their messages and without a reader:\n  \
             Orders: Retries/FinalDlq RetriesFinalDlqD1F8452E replace\n  \
             Redeliver: Redeliver/IntermediateDlq RedeliverIntermediateDlq33A75BA0 orphan\n  \
             Redeliver: Redeliver/SourceQueue RedeliverSourceQueue377AD49C may be replaced\n\
             deploy beside them under another prefix or stage, or as a second construct, and remove the old ones when they are \
             empty (docs/deploy/upgrade.md); if they are empty now, add --allow-queue-replacement"
        );
    }

    #[test]
    fn changes_that_keep_queues_are_deployed() {
        let kept = REPLACED.lines().filter(|line| {
            !(line.contains("AWS::SQS::Queue ") && (line.starts_with("[-]") || line.contains("replace")))
        });
        refuse_replacements(&kept.collect::<Vec<_>>().join("\n")).unwrap();
        refuse_replacements(
            "Stack Orders\nThere were no differences\n\n✨  Number of stacks with differences: 0\n",
        )
        .unwrap();
    }

    #[test]
    fn an_incomplete_diff_report_is_refused() {
        let cut_off = REPLACED.split_once("✨").unwrap().0;
        let reported = refuse_replacements(cut_off).unwrap_err().0;
        assert!(
            reported.starts_with("cdk diff does not report whether queues would be replaced; to deploy"),
            "{reported}"
        );
        refuse_replacements("").unwrap_err();
    }

    #[test]
    fn deploy_arguments_are_translated_for_cdk_diff() {
        let fixed = " --method template --fail=false --ci=false --no-color";
        let diff = |line: &str| diff_arguments(&split_words(line)).map(|arguments| arguments.join(" "));
        let reported = |line: &str| Some(format!("{line}{fixed}"));
        assert_eq!(diff("deploy --context target=https://a/"), reported("diff --context target=https://a/"));
        assert_eq!(diff("--profile ops deploy One deploy"), reported("--profile ops diff One deploy"));
        assert_eq!(
            diff("deploy --force One --method direct -m prepare-change-set --method=x"),
            reported("diff One")
        );
        assert_eq!(diff("deploy --all --require-approval never"), reported("diff --require-approval never"));
        assert_eq!(
            [diff("diff"), diff("destroy One"), diff("deploy --help"), diff("bootstrap")],
            [const { None }; 4]
        );
    }
}
