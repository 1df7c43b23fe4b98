//! What is known of each right: who uses it, and what is in the log of a function that misses it.

use serde_json::Value;

use super::rights::{RoleRight, is_of_lambda};
use super::stack::MotoStack;

/// What a run with all rights has shown.
pub(super) struct UsedRights {
    /// Rights that messages depend on.
    pub(super) used: Vec<RoleRight>,
    /// Neither used nor explained; or explained and used all the same.
    pub(super) unexplained: Vec<String>,
    pub(super) denied: Vec<String>,
}

impl UsedRights {
    pub(super) fn for_stack(stack: &MotoStack) -> Self {
        let decisions = stack.account.decisions();
        let mut found = Self { used: Vec::new(), unexplained: Vec::new(), denied: Vec::new() };
        for right in stack.rights() {
            let is_used = decisions.iter().any(|decision| {
                decision.allowed
                    && decision.user.split('@').next() == Some(&right.role)
                    && decision.action == right.action
                    && is_on(&right.resource, &decision.resource)
            });
            if is_used != unused(stack, &right).is_none() {
                found.unexplained.push(format!("{right:?}: used: {is_used}"));
            } else if is_used && !is_of_lambda(&right.action) && !right.role.contains("Setter") {
                found.used.push(right);
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

/// A statement names a log group by all that is in it.
fn is_on(of_statement: &str, resource: &str) -> bool {
    match of_statement.strip_suffix('*') {
        Some(start) => resource.starts_with(start) || of_statement == "*",
        None => of_statement == resource,
    }
}

/// The source queue's own key in the variant `existing-queue-with-keys`.
const KEY_OF_EXISTING_QUEUE: &str = "-000000000002";

/// The reason why it is unused: most of them come with the CDK's own grants.
pub(super) fn unused(stack: &MotoStack, right: &RoleRight) -> Option<&'static str> {
    let handler = stack.handler_of(&right.role);
    match right.action.as_str() {
        "sqs:GetQueueUrl" => Some("grantConsumeMessages; the URL is in the settings"),
        "sqs:ChangeMessageVisibility" if !stack.hides_messages() || handler != "message-processor" => {
            Some("grantConsumeMessages; Lambda leaves what failed to the visibility timeout")
        }
        "sqs:SendMessage"
            if handler == "message-processor"
                && stack.sends_again_itself()
                && right.resource.ends_with("-intermediate-dlq") =>
        {
            Some("only with long delays does it begin hops; the statement is of both strategies")
        }
        "sqs:SendMessage"
            if handler == "message-processor"
                && stack.has_strategy("delayed-resend")
                && stack.is_own_queue(right) =>
        {
            Some("only while the target is down does it send back what it did not call")
        }
        "kms:GenerateDataKey"
            if handler == "message-processor" && right.resource.ends_with(KEY_OF_EXISTING_QUEUE) =>
        {
            Some("the key of the source queue, with the right before")
        }
        "secretsmanager:DescribeSecret" => Some("grantRead; the ARN is in the settings"),
        _ => None,
    }
}

/// What must be in the log of the function that misses it; `None`: Lambda misses it, and the function is not asked.
pub(super) fn said_in_the_log(stack: &MotoStack, right: &RoleRight) -> Option<Vec<String>> {
    let handler = stack.handler_of(&right.role);
    // Without a function of ours there is no log of ours.
    stack.mappings.iter().find(|mapping| mapping.role == right.role)?;
    let is_own_queue = stack.is_own_queue(right);
    let queue = right.resource.rsplit(':').next().unwrap_or_default();
    let not_confirmed = |send: &str, code: &str| {
        vec![
            r#""event":"not_confirmed""#.to_owned(),
            format!(r#""send":"{send}""#),
            format!(r#""code":"{code}""#),
        ]
    };
    let denied = "AccessDeniedException";
    match right.action.as_str() {
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
        "secretsmanager:GetSecretValue" => Some(vec![format!("({denied})"), right.action.clone()]),
        "kms:GenerateDataKey" => {
            Some(vec![r#""event":"not_confirmed""#.to_owned(), r#""code":"KmsAccessDenied""#.to_owned()])
        }
        _ => None,
    }
}

impl MotoStack {
    /// Around a function of a user's own it is the message-processor as well.
    fn handler_of(&self, role: &str) -> &str {
        let mapping = self.mappings.iter().find(|mapping| mapping.role == role);
        let handler = mapping.map_or("", |mapping| &mapping.handler);
        let mut functions = self.template.resources_by_type("AWS::Lambda::Function");
        let is_wrapped =
            |function: &Value| function["Environment"]["Variables"]["AWS_LAMBDA_EXEC_WRAPPER"].is_string();
        let is_users = functions.any(|(id, function)| id == handler && is_wrapped(&function));
        if is_users { "message-processor" } else { handler }
    }

    /// True if the role's function reads the queue of the right.
    fn is_own_queue(&self, right: &RoleRight) -> bool {
        let mut of_role = self.mappings.iter().filter(|mapping| mapping.role == right.role);
        of_role.any(|mapping| mapping.queue_arn == right.resource)
    }

    fn hides_messages(&self) -> bool {
        self.has_strategy("visibility") || self.has_strategy("ordered")
    }

    fn sends_again_itself(&self) -> bool {
        self.has_strategy("direct-resend")
    }

    pub(super) fn has_strategy(&self, strategy: &str) -> bool {
        let mut functions = self.template.resources_by_type("AWS::Lambda::Function");
        functions.any(|(_, function)| function["Environment"]["Variables"]["STRATEGY"] == strategy)
    }
}
