//! The Lambda concurrency that a template needs, compared with the account's quota.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::terminal::units::group_digits;

/// The part of an account's concurrency that no function can reserve ("Understanding reserved concurrency", AWS Lambda
/// Developer Guide).
const UNRESERVED_MIN: u64 = 100;
/// Concurrent invocations per provisioned poller ("Configuring scaling behavior", AWS Lambda Developer Guide).
const PER_POLLER: u64 = 10;
/// The default quota of an account that is not new ("Lambda quotas", AWS Lambda Developer Guide).
const DEFAULT_QUOTA: u64 = 1000;

/// The concurrency that a template needs, and the account's quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Concurrency {
    /// Derived from the mappings' limits and the functions' reservations.
    pub wanted: u64,
    /// The account's "Concurrent executions" quota in this region.
    pub quota: u64,
    /// Advice on the quota to request, if the current one is too low.
    pub advice: Option<String>,
}

/// The concurrency that a template needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequiredConcurrency {
    /// The maximum number of concurrent invocations of functions with event source mappings, plus the unreserved
    /// concurrency that their reservations require.
    pub concurrency: u64,
    /// The logical ids of mappings without a limit, which are not included.
    pub unlimited: Vec<String>,
}

/// Adds up a template's limits and reservations.
pub(super) fn sum_concurrency(template: &Value) -> RequiredConcurrency {
    let resources = template["Resources"].as_object();
    let of_type = |kind: &'static str| {
        resources.into_iter().flatten().filter(move |(_, resource)| resource["Type"] == kind)
    };
    let mut reserved = BTreeMap::new();
    for (id, function) in of_type("AWS::Lambda::Function") {
        if let Some(number) =
            resolve_number(template, &function["Properties"]["ReservedConcurrentExecutions"])
        {
            reserved.insert(id.as_str(), number);
        }
    }
    let (mut unreserved, mut unlimited) = (0, Vec::new());
    for (mapping_id, mapping) in of_type("AWS::Lambda::EventSourceMapping") {
        let properties = &mapping["Properties"];
        let function = &properties["FunctionName"];
        let id = function["Ref"].as_str().or_else(|| function["Fn::GetAtt"][0].as_str());
        if id.is_some_and(|id| reserved.contains_key(id)) {
            continue;
        }
        let pollers = resolve_number(template, &properties["ProvisionedPollerConfig"]["MaximumPollers"]);
        let limit = resolve_number(template, &properties["ScalingConfig"]["MaximumConcurrency"]);
        match limit.or(pollers.map(|pollers| pollers * PER_POLLER)) {
            Some(limit) => unreserved += limit,
            None => unlimited.push(mapping_id.clone()),
        }
    }
    let concurrency = match reserved.values().sum() {
        0 => unreserved,
        reserved => reserved + unreserved.max(UNRESERVED_MIN),
    };
    RequiredConcurrency { concurrency, unlimited }
}

/// Resolves a number, or a reference to a parameter with a default.
fn resolve_number(template: &Value, value: &Value) -> Option<u64> {
    let by_default = |name: &str| resolve_number(template, &template["Parameters"][name]["Default"]);
    let text = value.as_str().and_then(|text| text.parse().ok());
    value.as_u64().or(text).or_else(|| by_default(value["Ref"].as_str()?))
}

impl Concurrency {
    pub fn new(wanted: u64, quota: u64, region: &str) -> Self {
        let new_quota = wanted.max(DEFAULT_QUOTA);
        let advice = (wanted > quota).then(|| {
            format!(
                "the Lambda limit in this account and region is {} concurrent executions, and this stack needs {}, \
                 not counting its target: Lambda throttles the rest, each throttled receive brings a message closer \
                 to its DLQ, and reservations fail. Request {} for the quota \"Concurrent executions\": \
                 aws service-quotas request-service-quota-increase \
                 --service-code lambda --quota-code L-B99A9384 --desired-value {new_quota} --region {region}; or lower \
                 maxConcurrency and innerConcurrency",
                group_digits(quota),
                group_digits(wanted),
                group_digits(new_quota)
            )
        });
        Self { wanted, quota, advice }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mapping(function: &str, scaling: impl Into<Value>) -> Value {
        let scaling: Value = scaling.into();
        json!({ "Type": "AWS::Lambda::EventSourceMapping", "Properties": {
            "FunctionName": { "Ref": function }, "ScalingConfig": scaling } })
    }

    fn limit(maximum: impl Into<Value>) -> Value {
        let maximum: Value = maximum.into();
        json!({ "MaximumConcurrency": maximum })
    }

    fn function(reserved: impl Into<Value>) -> Value {
        let reserved: Value = reserved.into();
        json!({ "Type": "AWS::Lambda::Function", "Properties": { "ReservedConcurrentExecutions": reserved } })
    }

    #[test]
    fn a_stack_needs_the_sum_of_its_mapping_limits() {
        let [a, b, c] = ["A", "B", "C"].map(|name| mapping(name, limit(json!(10))));
        assert_eq!(sum_concurrency(&json!({ "Resources": { "a": a, "b": b, "c": c } })).concurrency, 30);
        let pollers = json!({ "Type": "AWS::Lambda::EventSourceMapping", "Properties": {
            "FunctionName": { "Ref": "A" }, "ProvisionedPollerConfig": { "MaximumPollers": 3 } } });
        assert_eq!(sum_concurrency(&json!({ "Resources": { "a": pollers, "b": b } })).concurrency, 40);
        let not_known = sum_concurrency(&json!({ "Resources": { "a": mapping("A", Value::Null) } }));
        assert_eq!(not_known, RequiredConcurrency { concurrency: 0, unlimited: vec!["a".to_owned()] });
    }

    #[test]
    fn a_reservation_counts_in_full_and_leaves_a_hundred_unreserved() {
        let resources = json!({ "A": function(json!(25)), "a": mapping("A", limit(json!(10))),
            "b": mapping("B", limit(json!(10))), "c": mapping("C", limit(json!(10))) });
        assert_eq!(sum_concurrency(&json!({ "Resources": resources })).concurrency, 125);
        let resources = json!({ "A": function(json!(25)), "b": mapping("B", limit(json!(150))) });
        assert_eq!(sum_concurrency(&json!({ "Resources": resources })).concurrency, 175);
    }

    #[test]
    fn a_parameter_is_resolved_to_its_default() {
        let template = json!({ "Parameters": { "InnerConcurrency": { "Default": "7" }, "Max": { "Default": 5 } },
            "Resources": { "a": mapping("A", limit(json!({ "Ref": "InnerConcurrency" }))),
                "b": mapping("B", limit(json!({ "Ref": "Max" }))), "c": mapping("C", limit(json!({ "Ref": "None" }))) } });
        assert_eq!(
            sum_concurrency(&template),
            RequiredConcurrency { concurrency: 12, unlimited: vec!["c".to_owned()] }
        );
    }

    #[test]
    fn the_quota_advice_includes_the_quota_name_code_and_command() {
        assert_eq!(Concurrency::new(30, 30, "eu-central-1").advice, None);
        assert_eq!(
            Concurrency::new(30, 10, "eu-central-1").advice.unwrap(),
            "the Lambda limit in this account and region is 10 concurrent executions, and this stack needs 30, not \
             counting its target: Lambda throttles the rest, each throttled receive brings a message closer to its \
             DLQ, and reservations fail. Request 1,000 for the quota \"Concurrent executions\": \
             aws service-quotas request-service-quota-increase --service-code \
             lambda --quota-code L-B99A9384 --desired-value 1000 --region eu-central-1; or lower maxConcurrency and \
             innerConcurrency"
        );
        let large = Concurrency::new(1500, 1000, "us-east-1").advice.unwrap();
        assert!(large.contains("--desired-value 1500 --region us-east-1"), "{large}");
    }
}
