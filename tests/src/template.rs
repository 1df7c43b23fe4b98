//! A CloudFormation template with a deployment's values filled in.

use serde_json::{Map, Value, json};

use crate::sqs::REGION;

/// The resources of a template.
pub struct Template {
    resources: Map<String, Value>,
    conditions: Value,
    account: String,
    endpoint_url: String,
}

/// The account used in the templates from `infra/test/stack-variants.ts`.
const ACCOUNT_OF_VARIANTS: &str = "111122223333";

impl Template {
    /// Parses a template. Its pseudo parameters resolve to this account.
    ///
    /// # Panics
    /// If the text is not a template.
    #[must_use]
    pub fn from_text(text: &str, account: &str, endpoint_url: &str) -> Self {
        let template: Value =
            serde_json::from_str(&text.replace(ACCOUNT_OF_VARIANTS, account)).expect("JSON");
        let resources = template["Resources"].as_object().expect("a template has resources").clone();
        let conditions = template["Conditions"].clone();
        Self { resources, conditions, account: account.to_owned(), endpoint_url: endpoint_url.to_owned() }
    }

    /// Returns the resources of a type: logical ids, and properties with all references resolved.
    pub fn resources_by_type(&self, wanted: &str) -> impl Iterator<Item = (&str, Value)> {
        let found = self.resources.iter().filter(move |(_, resource)| resource["Type"] == wanted);
        found.map(|(id, resource)| (id.as_str(), self.resolve(&resource["Properties"])))
    }

    /// Resolves all references and conditions in a value. CloudFormation's other functions are kept.
    ///
    /// # Panics
    /// If the value has a form that the CDK does not write.
    #[must_use]
    pub fn resolve(&self, value: &Value) -> Value {
        match value {
            Value::Array(values) => {
                values.iter().map(|value| self.resolve(value)).filter(|value| *value != no_value()).collect()
            }
            Value::Object(members) => match members.iter().next() {
                Some(_) if *value == no_value() => no_value(),
                Some((name, argument)) if members.len() == 1 && name == "Ref" => {
                    self.resolve_reference(as_text(argument)).into()
                }
                Some((name, argument)) if members.len() == 1 && name == "Fn::If" => {
                    let is_met = self.condition_holds(&self.conditions[as_text(&argument[0])]);
                    self.resolve(&argument[if is_met { 1 } else { 2 }])
                }
                Some((name, argument)) if members.len() == 1 && name == "Fn::GetAtt" => {
                    self.resolve_attribute(argument).into()
                }
                Some((name, argument)) if members.len() == 1 && name == "Fn::Join" => {
                    self.resolve_join(argument).into()
                }
                _ => {
                    let resolved = members.iter().map(|(name, value)| (name.clone(), self.resolve(value)));
                    resolved.filter(|(_, value)| *value != no_value()).collect()
                }
            },
            other => other.clone(),
        }
    }

    fn condition_holds(&self, condition: &Value) -> bool {
        let members = condition.as_object().expect("a condition");
        match members.iter().next().map(|(name, argument)| (name.as_str(), argument)) {
            Some(("Fn::Or", argument)) => {
                argument.as_array().expect("a list").iter().any(|one| self.condition_holds(one))
            }
            Some(("Fn::Equals", argument)) => self.resolve(&argument[0]) == self.resolve(&argument[1]),
            other => panic!("unsupported form of a condition: {other:?}"),
        }
    }

    fn resolve_join(&self, argument: &Value) -> String {
        let parts = self.resolve(&argument[1]);
        let parts = parts.as_array().expect("a list").iter().map(as_text);
        parts.collect::<Vec<_>>().join(as_text(&argument[0]))
    }

    fn resolve_reference(&self, id: &str) -> String {
        match id {
            "AWS::Partition" => "aws".to_owned(),
            "AWS::Region" => REGION.to_owned(),
            "AWS::AccountId" => self.account.clone(),
            "AWS::URLSuffix" => "amazonaws.com".to_owned(),
            "AWS::StackId" => "arn:aws:cloudformation:stack".to_owned(),
            _ if self.resources[id]["Type"] == "AWS::SQS::Queue" => self.queue_url(&self.resource_name(id)),
            _ => self.resource_name(id),
        }
    }

    /// Returns the URL that moto gives a queue with this name.
    #[must_use]
    pub fn queue_url(&self, name: &str) -> String {
        format!("{}/{}/{name}", self.endpoint_url, self.account)
    }

    fn resolve_attribute(&self, argument: &Value) -> String {
        let (id, attribute) = (as_text(&argument[0]), as_text(&argument[1]));
        let name = self.resource_name(id);
        let (here, account) = (format!("{REGION}:{}", self.account), &self.account);
        match (as_text(&self.resources[id]["Type"]), attribute) {
            ("AWS::SQS::Queue", "Arn") => format!("arn:aws:sqs:{here}:{name}"),
            ("AWS::SQS::Queue", "QueueName") => name,
            ("AWS::Lambda::Function", "Arn") => format!("arn:aws:lambda:{here}:function:{name}"),
            ("AWS::Logs::LogGroup", "Arn") => format!("arn:aws:logs:{here}:log-group:{name}:*"),
            ("AWS::IAM::Role", "Arn") => format!("arn:aws:iam::{account}:role/{name}"),
            ("AWS::IAM::Role", "RoleId") => format!("AROA{:0>17}", name.to_uppercase()),
            ("AWS::KMS::Key", "Arn") => format!("arn:aws:kms:{here}:key/{name}"),
            (resource_type, _) => format!("{resource_type}.{attribute} of {name}"),
        }
    }

    /// Returns the name of a resource, or its logical id if the template sets no name.
    fn resource_name(&self, id: &str) -> String {
        let properties = &self.resources[id]["Properties"];
        let named = ["QueueName", "FunctionName"].into_iter().find_map(|member| properties[member].as_str());
        named.unwrap_or(id).to_owned()
    }
}

/// Returns the placeholder for a member that is to be removed.
fn no_value() -> Value {
    json!({ "Ref": "AWS::NoValue" })
}

fn as_text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}
