//! The permissions of a template's roles, one action and resource at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use redeliver_tests::template::Template;
use serde_json::Value;

use super::stack::text;

/// Services that only Lambda itself calls with the role.
const LAMBDA_SERVICES: [&str; 3] = ["logs:", "xray:", "ec2:"];

/// One action on one resource, granted to a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RolePermission {
    /// The role's logical id.
    pub(super) role: String,
    pub(super) action: String,
    pub(super) resource: String,
}

/// Returns the kind of a permission, independent of the account and of the name of a source queue.
pub(super) fn permission_kind(template: &Template, permission: &RolePermission) -> String {
    let mut functions = template.resources_by_type("AWS::Lambda::Function");
    let found = functions.find(|(_, function)| text(&function["Role"]).ends_with(&permission.role));
    let Some((id, function)) = found else { return format!("{permission:?}") };
    let name = function["FunctionName"].as_str().unwrap_or(id);
    let mut mappings = template.resources_by_type("AWS::Lambda::EventSourceMapping");
    let own = mappings
        .find(|(_, mapping)| mapping["FunctionName"] == name)
        .map(|(_, properties)| properties["EventSourceArn"].clone());
    let is_own = own.is_some_and(|own| own == permission.resource.as_str());
    let resource =
        if is_own { "its queue" } else { permission.resource.rsplit(':').next().unwrap_or_default() };
    let strategy = &function["Environment"]["Variables"]["STRATEGY"];
    format!("{} {strategy} {} {resource}", function["Handler"], permission.action)
}

/// Returns true if only Lambda itself performs this action with a role.
pub(super) fn is_lambda_action(action: &str) -> bool {
    LAMBDA_SERVICES.iter().any(|service| action.starts_with(service))
}

pub(super) fn is_account_id(part: &str) -> bool {
    part.len() == 12 && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if both are the same resource. Secrets count as the same, because their ARNs end with random
/// characters.
pub(super) fn same_resource(one: &str, other: &str) -> bool {
    one == other || (one.contains("secretsmanager") && other.contains("secretsmanager"))
}

/// Returns the name of the user that stands in for Lambda when it assumes a role.
pub(super) fn lambda_user(role: &str) -> String {
    format!("{role}@lambda")
}

pub(super) fn action_resource_pairs(statement: &Value) -> impl Iterator<Item = (&str, &str)> {
    strings(&statement["Action"])
        .flat_map(move |action| strings(&statement["Resource"]).map(move |resource| (action, resource)))
}

pub(super) fn strings(value: &Value) -> impl Iterator<Item = &str> {
    let (one, many) = (value.as_str(), value.as_array());
    one.into_iter().chain(many.into_iter().flatten().map(text))
}

pub(super) fn permissions(roles: &BTreeMap<String, Vec<Value>>) -> BTreeSet<RolePermission> {
    let mut permissions = BTreeSet::new();
    for (role, statements) in roles {
        let allowed = statements.iter().filter(|statement| statement["Effect"] == "Allow");
        permissions.extend(allowed.flat_map(action_resource_pairs).map(|(action, resource)| {
            RolePermission { role: role.clone(), action: action.to_owned(), resource: resource.to_owned() }
        }));
    }
    permissions
}

/// Returns the inline statements by role. AWS's own policies on users' functions do not count.
pub(super) fn statements_by_role(template: &Template) -> BTreeMap<String, Vec<Value>> {
    let mut roles: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (id, role) in template.resources_by_type("AWS::IAM::Role") {
        let inline = role["Policies"].as_array().into_iter().flatten();
        let statements =
            inline.flat_map(|policy| policy["PolicyDocument"]["Statement"].as_array().unwrap().clone());
        roles.insert(id.to_owned(), statements.collect());
    }
    for (_, policy) in template.resources_by_type("AWS::IAM::Policy") {
        let statements = policy["PolicyDocument"]["Statement"].as_array().unwrap();
        for role in strings(&policy["Roles"]) {
            roles.get_mut(role).unwrap().extend(statements.clone());
        }
    }
    roles
}

/// Returns the response, or `None` if IAM refuses the request. Panics on any other error.
pub(super) fn ok_unless_denied<T, E, R>(answer: Result<T, SdkError<E, R>>) -> Option<T>
where
    E: ProvideErrorMetadata + Debug,
    R: Debug,
{
    match answer {
        Ok(answer) => Some(answer),
        Err(error) if matches!(error.code(), Some("AccessDeniedException" | "KmsAccessDenied")) => None,
        Err(error) => panic!("neither an answer nor a refusal: {error:?}"),
    }
}
