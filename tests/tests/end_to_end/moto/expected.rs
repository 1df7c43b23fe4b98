//! The expectations for each permission: whether it is used, and what a function logs without it.

use serde_json::Value;

use super::permissions::{RolePermission, is_lambda_action};
use super::stack::MotoStack;

/// The results of a run with all permissions.
pub(super) struct UsedPermissions {
    /// Permissions that messages depend on.
    pub(super) used: Vec<RolePermission>,
    /// Permissions that are unused without an explanation, or used despite one.
    pub(super) unexplained: Vec<String>,
    pub(super) denied: Vec<String>,
}

impl UsedPermissions {
    pub(super) fn for_stack(stack: &MotoStack) -> Self {
        let decisions = stack.account.decisions();
        let mut found = Self { used: Vec::new(), unexplained: Vec::new(), denied: Vec::new() };
        for permission in stack.permissions() {
            let is_used = decisions.iter().any(|decision| {
                decision.allowed
                    && decision.user.split('@').next() == Some(&permission.role)
                    && decision.action == permission.action
                    && covers(&permission.resource, &decision.resource)
            });
            if is_used != unused_reason(stack, &permission).is_none() {
                found.unexplained.push(format!("{permission:?}: used: {is_used}"));
            } else if is_used && !is_lambda_action(&permission.action) && !permission.role.contains("Setter")
            {
                found.used.push(permission);
            }
        }
        let is_own_network =
            |user: &str, action: &str| action.starts_with("ec2:") && !user.ends_with("@lambda");
        for decision in decisions {
            if decision.allowed == is_own_network(&decision.user, &decision.action) {
                found.denied.push(format!("{decision:?}"));
            }
        }
        found
    }
}

/// Returns true if a statement's pattern covers the resource. A log group's pattern ends with a wildcard for its
/// contents.
fn covers(pattern: &str, resource: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => resource.starts_with(start) || pattern == "*",
        None => pattern == resource,
    }
}

/// The source queue's own key in the variant `existing-queue-with-keys`.
const KEY_OF_EXISTING_QUEUE: &str = "-000000000002";

/// Returns the reason why a permission is unused. Most unused permissions are part of the CDK's own grants.
pub(super) fn unused_reason(stack: &MotoStack, permission: &RolePermission) -> Option<&'static str> {
    let handler = stack.handler_of(&permission.role);
    match permission.action.as_str() {
        "sqs:GetQueueUrl" => Some("grantConsumeMessages; the URL is in the settings"),
        "sqs:ChangeMessageVisibility" if !stack.hides_messages() || handler != "message-processor" => {
            Some("grantConsumeMessages; Lambda leaves failed messages until their visibility timeout ends")
        }
        "sqs:SendMessage"
            if handler == "message-processor"
                && stack.resends_directly()
                && permission.resource.ends_with("-intermediate-dlq") =>
        {
            Some("it starts hops only with long delays; both strategies share the statement")
        }
        "sqs:SendMessage"
            if handler == "message-processor"
                && stack.has_strategy("delayed-resend")
                && stack.is_own_queue(permission) =>
        {
            Some("it sends uncalled messages back only while the target is down")
        }
        "kms:GenerateDataKey"
            if handler == "message-processor" && permission.resource.ends_with(KEY_OF_EXISTING_QUEUE) =>
        {
            Some("the key of the source queue, needed only for the permission above")
        }
        "secretsmanager:DescribeSecret" => Some("grantRead; the ARN is in the settings"),
        _ => None,
    }
}

/// Returns what a function is expected to log without this permission, or `None` if Lambda itself uses the permission,
/// so no function reports that it is missing.
pub(super) fn expected_log(stack: &MotoStack, permission: &RolePermission) -> Option<Vec<String>> {
    let handler = stack.handler_of(&permission.role);
    // If none of our functions has the role, there is no log to check.
    stack.mappings.iter().find(|mapping| mapping.role == permission.role)?;
    let is_own_queue = stack.is_own_queue(permission);
    let queue = permission.resource.rsplit(':').next().unwrap_or_default();
    let not_confirmed = |send: &str, code: &str| {
        vec![
            r#""event":"not_confirmed""#.to_owned(),
            format!(r#""send":"{send}""#),
            format!(r#""code":"{code}""#),
        ]
    };
    let denied = "AccessDeniedException";
    match permission.action.as_str() {
        "sqs:SendMessage" if queue.ends_with("-final-dlq") => Some(not_confirmed("final record", denied)),
        "sqs:SendMessage" if queue.ends_with("-annotation") => Some(not_confirmed("verdict", denied)),
        "sqs:SendMessage" if is_own_queue && handler != "message-processor" => {
            Some(not_confirmed("hop", denied))
        }
        "sqs:SendMessage" if queue.ends_with("-intermediate-dlq") => Some(not_confirmed("hand-off", denied)),
        "sqs:SendMessage" => Some(not_confirmed("re-send", denied)),
        "sqs:ChangeMessageVisibility" => Some(not_confirmed("visibility", denied)),
        "lambda:InvokeFunction" if handler == "async-retry-handler" => {
            Some(not_confirmed("invocation", denied))
        }
        "lambda:InvokeFunction" => Some(vec![r#""error_type":"Lambda.AccessDenied""#.to_owned()]),
        "secretsmanager:GetSecretValue" => Some(vec![format!("({denied})"), permission.action.clone()]),
        "kms:GenerateDataKey" => {
            Some(vec![r#""event":"not_confirmed""#.to_owned(), r#""code":"KmsAccessDenied""#.to_owned()])
        }
        _ => None,
    }
}

impl MotoStack {
    /// Returns the role's handler. A user's own function behind the layer counts as the message-processor.
    fn handler_of(&self, role: &str) -> &str {
        let mapping = self.mappings.iter().find(|mapping| mapping.role == role);
        let handler = mapping.map_or("", |mapping| &mapping.handler);
        let mut functions = self.template.resources_by_type("AWS::Lambda::Function");
        let is_wrapped =
            |function: &Value| function["Environment"]["Variables"]["AWS_LAMBDA_EXEC_WRAPPER"].is_string();
        let is_users = functions.any(|(id, function)| id == handler && is_wrapped(&function));
        if is_users { "message-processor" } else { handler }
    }

    /// Returns true if the role's function reads the queue to which the permission applies.
    fn is_own_queue(&self, permission: &RolePermission) -> bool {
        let mut mappings = self.mappings.iter().filter(|mapping| mapping.role == permission.role);
        mappings.any(|mapping| mapping.queue_arn == permission.resource)
    }

    fn hides_messages(&self) -> bool {
        self.has_strategy("visibility") || self.has_strategy("ordered")
    }

    fn resends_directly(&self) -> bool {
        self.has_strategy("direct-resend")
    }

    pub(super) fn has_strategy(&self, strategy: &str) -> bool {
        let mut functions = self.template.resources_by_type("AWS::Lambda::Function");
        functions.any(|(_, function)| function["Environment"]["Variables"]["STRATEGY"] == strategy)
    }
}
