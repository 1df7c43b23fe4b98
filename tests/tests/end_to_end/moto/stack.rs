//! A variant of the stack in a separate account: queues with policies, users with the roles' statements, and functions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Credentials;
use redeliver_tests::http_target::HttpTargetServer;
use redeliver_tests::moto::{MotoAccount, MotoInvocation};
use redeliver_tests::runtime_api::LambdaFunction;
use redeliver_tests::runtimes::{LambdaProgram, Language};
use redeliver_tests::settings::{PATIENCE, bundle_path, venv_file, workspace_root};
use redeliver_tests::sqs::REGION;
use redeliver_tests::template::Template;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::mapping::MotoMapping;
use super::messages::LONG_DELAY_SECONDS;
use super::permissions::{
    RolePermission, action_resource_pairs, is_account_id, is_lambda_action, lambda_user, permissions,
    same_resource, statements_by_role,
};
use super::{TEMPLATES, queues};

/// A round polls each queue once; no run needs even a tenth of these rounds.
const ROUNDS_MAX: u32 = 2000;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The secret in the templates.
const SECRET: &str = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:headers-AbCdEf";

pub(super) struct MotoStack {
    pub(super) account: MotoAccount,
    pub(super) template: Template,
    /// The statements by role.
    pub(super) roles: BTreeMap<String, Vec<Value>>,
    pub(super) mappings: Vec<MotoMapping>,
    /// The journal of a user's own function.
    pub(super) journal: PathBuf,
    keys: BTreeMap<String, Credentials>,
    /// The number of invocations returned by [`Self::new_invocations`] so far.
    recorded: AtomicUsize,
}

impl MotoStack {
    /// Deploys a variant, with all permissions.
    pub(super) async fn deploy(variant: &str, target: &HttpTargetServer) -> Self {
        let account = MotoAccount::new();
        let secret = account.create_secret("headers", r#"{"Authorization":"Bearer of-the-secret"}"#).await;
        let text = TEMPLATES[variant].replace(SECRET, &secret);
        let template = Template::from_text(&text, &account.id, &account.endpoint_url());
        queues::create(&account, &template).await;
        let journal = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("permissions-{}", account.id));
        let _of_an_earlier_run = std::fs::remove_file(&journal);
        let roles = statements_by_role(&template);
        let (mappings, keys, recorded) = (Vec::new(), BTreeMap::new(), AtomicUsize::new(0));
        let mut stack = Self { account, template, roles, mappings, journal, keys, recorded };
        stack.create_users().await;
        stack.restore_permissions().await;
        stack.create_mappings(target);
        stack
    }

    async fn create_users(&mut self) {
        let functions: Vec<_> = self.template.resources_by_type("AWS::Lambda::Function").collect();
        for role in self.roles.keys() {
            let has_role =
                |(_, function): &&(&str, Value)| text(&function["Role"]).ends_with(&format!("/{role}"));
            let name = functions
                .iter()
                .find(has_role)
                .map_or("", |(id, function)| function["FunctionName"].as_str().unwrap_or(id));
            for (user, path) in [(role.clone(), format!("/{name}/")), (lambda_user(role), "/".to_owned())] {
                let key = self.account.create_user(&user, &path).await;
                self.keys.insert(user, key);
            }
        }
    }

    fn create_mappings(&mut self, target: &HttpTargetServer) {
        let functions: BTreeMap<_, _> = self
            .template
            .resources_by_type("AWS::Lambda::Function")
            .map(|(id, function)| {
                (function["FunctionName"].as_str().unwrap_or(id).to_owned(), (id, function))
            })
            .collect();
        let mut mappings = Vec::new();
        for (_, mapping) in self.template.resources_by_type("AWS::Lambda::EventSourceMapping") {
            let (id, function) = &functions[text(&mapping["FunctionName"])];
            let role = text(&function["Role"]).rsplit('/').next().unwrap().to_owned();
            let queue_arn = text(&mapping["EventSourceArn"]).to_owned();
            let queue_url = self.template.queue_url(queue_arn.rsplit(':').next().unwrap());
            let is_ours = text(&function["Runtime"]).starts_with("provided");
            let handler = if is_ours { text(&function["Handler"]) } else { id }.to_owned();
            let lambda = self.client(&lambda_user(&role));
            let function = self.build_function(&handler, is_ours, &role, function, target);
            mappings.push(MotoMapping { role, handler, queue_url, queue_arn, function, lambda });
        }
        self.mappings = mappings;
    }

    fn build_function(
        &self,
        handler: &str,
        is_ours: bool,
        role: &str,
        properties: &Value,
        target: &HttpTargetServer,
    ) -> Arc<LambdaFunction> {
        let mut variables: BTreeMap<String, String> = BTreeMap::new();
        let program = if is_ours {
            bundle_path(handler)
        } else {
            let LambdaProgram { path, variables: runtime_variables } = Language::Python.scripted_program();
            variables.extend(runtime_variables.into_iter().map(|(name, value)| (name.to_owned(), value)));
            path
        };
        for (name, value) in properties["Environment"]["Variables"].as_object().into_iter().flatten() {
            let value = match name.as_str() {
                "RETRY_POLICY" => quick_policy(text(value), handler),
                "AWS_LAMBDA_EXEC_WRAPPER" => bundle_path("message-processor").display().to_string(),
                "TARGET" if text(value).starts_with("https:") => target.url().to_owned(),
                _ => text(value).to_owned(),
            };
            variables.insert(name.clone(), value);
        }
        if is_ours && handler != "final-dlq-annotator" {
            variables.entry("RETRY_POLICY".to_owned()).or_insert_with(|| quick_policy("{}", handler));
        }
        let key = &self.keys[role];
        let test_variables = [
            ("AWS_ENDPOINT_URL", self.account.endpoint_url()),
            ("AWS_ACCESS_KEY_ID", key.access_key_id().to_owned()),
            ("AWS_SECRET_ACCESS_KEY", key.secret_access_key().to_owned()),
            ("LOG_DETAIL", "messages".to_owned()),
            ("LOG_LEVEL", "INFO".to_owned()),
            ("SCRIPT_JOURNAL", self.journal.display().to_string()),
        ];
        variables.extend(test_variables.map(|(name, value)| (name.to_owned(), value)));
        LambdaFunction::new(handler, program, variables)
    }

    /// Returns a client that signs requests as a role's function does, or as Lambda does with the role.
    pub(super) fn client(&self, user: &str) -> Client {
        self.account.signed_client(self.keys[user].clone())
    }

    /// Returns the user's access key.
    pub(super) fn key(&self, user: &str) -> &Credentials {
        &self.keys[user]
    }

    /// Grants every role the template's statements.
    pub(super) async fn restore_permissions(&self) {
        for (role, statements) in &self.roles {
            for user in [role.clone(), lambda_user(role)] {
                self.account.set_user_policy(&user, statements).await;
            }
        }
    }

    /// Removes one permission from its role.
    pub(super) async fn remove_permission(&self, permission: &RolePermission) {
        let mut left = Vec::new();
        for statement in &self.roles[&permission.role] {
            if statement["Effect"] == "Deny" {
                left.push(statement.clone());
                continue;
            }
            let kept = action_resource_pairs(statement)
                .filter(|pair| *pair != (&permission.action, &permission.resource));
            left.extend(kept.map(
                |(action, resource)| json!({ "Effect": "Allow", "Action": action, "Resource": resource }),
            ));
        }
        for user in [permission.role.clone(), lambda_user(&permission.role)] {
            self.account.set_user_policy(&user, &left).await;
        }
    }

    /// Returns all permissions of all roles.
    pub(super) fn permissions(&self) -> BTreeSet<RolePermission> {
        permissions(&self.roles)
    }

    /// Returns the permission in this account that corresponds to a permission in another account.
    pub(super) fn corresponding_permission(&self, other: &RolePermission) -> RolePermission {
        let here = |permission: &RolePermission| {
            permission.resource.split(':').filter(|part| !is_account_id(part)).collect::<String>()
        };
        let candidates = self
            .permissions()
            .into_iter()
            .filter(|permission| (&permission.role, &permission.action) == (&other.role, &other.action));
        let mut same: Vec<_> =
            candidates.filter(|permission| same_resource(&here(permission), &here(other))).collect();
        assert_eq!(same.len(), 1, "{other:?}: {same:?}");
        same.remove(0)
    }

    /// Polls each queue until nothing more arrives, or until `is_enough` returns true.
    pub(super) async fn poll_until_idle(&self, is_enough: &dyn Fn() -> bool) {
        for _ in 0..ROUNDS_MAX {
            if is_enough() || !self.poll_queues_once().await {
                return;
            }
        }
        panic!("the queues do not become empty\n{}", self.log());
    }

    /// Polls each queue once. Returns true if anything arrived.
    pub(super) async fn poll_queues_once(&self) -> bool {
        let mut came = false;
        for mapping in &self.mappings {
            came |= mapping.poll(&self.account).await;
        }
        super::messages::record_failed_invocations(self).await || came
    }

    /// Returns true if this permission was denied to its role.
    pub(super) fn is_denied(&self, permission: &RolePermission) -> bool {
        self.account.decisions().iter().any(|decision| {
            let role = decision.user.split('@').next();
            !decision.allowed
                && role == Some(&permission.role)
                && decision.action == permission.action
                && decision.resource == permission.resource
        })
    }

    /// Returns the invocations since the last query.
    pub(super) fn new_invocations(&self) -> Vec<MotoInvocation> {
        let invoked = self.account.invocations();
        let seen = self.recorded.swap(invoked.len(), Ordering::Relaxed);
        invoked.into_iter().skip(seen).collect()
    }

    /// Returns the role of a function, by the function's name.
    pub(super) fn role_of(&self, function: &str) -> Option<String> {
        let mut functions = self.template.resources_by_type("AWS::Lambda::Function");
        let found =
            functions.find(|(id, properties)| properties["FunctionName"].as_str().unwrap_or(id) == function);
        found.map(|(_, properties)| text(&properties["Role"]).rsplit('/').next().unwrap().to_owned())
    }

    /// Makes Lambda's own requests with each role: logs, traces, network interfaces.
    pub(super) async fn exercise_lambda_permissions(&self) {
        let mut lines = Vec::new();
        for role in self.roles.keys() {
            let permissions = self.permissions().into_iter().filter(|permission| permission.role == *role);
            let actions: Vec<_> = permissions
                .map(|permission| permission.action)
                .filter(|action| is_lambda_action(action))
                .collect();
            for user in [lambda_user(role), role.clone()] {
                let key = &self.keys[&user];
                let client = json!({
                    "endpoint_url": self.account.endpoint_url(),
                    "region_name": REGION,
                    "aws_access_key_id": key.access_key_id(),
                    "aws_secret_access_key": key.secret_access_key(),
                });
                // The function itself must not have access to its network interfaces.
                let is_tried = |action: &&String| user != *role || action.starts_with("ec2:");
                let actions: Vec<_> = actions.iter().filter(is_tried).collect();
                let log_group = self.log_group(role);
                lines.push(
                    json!({ "client": client, "log_group": log_group, "actions": actions }).to_string(),
                );
            }
        }
        let mut script = Command::new(venv_file("bin/python"))
            .arg(workspace_root().join("tests/support/boto3_platform.py"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        script.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).await.unwrap();
        assert!(script.wait().await.unwrap().success(), "the script knows all actions");
    }

    fn log_group(&self, role: &str) -> String {
        let mut functions = self.template.resources_by_type("AWS::Lambda::Function");
        let found = functions.find(|(_, function)| text(&function["Role"]).ends_with(role));
        found
            .and_then(|(_, properties)| properties["LoggingConfig"]["LogGroup"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Waits until the log has these words: the last output of a process can be delayed.
    pub(super) async fn assert_reported(&self, permission: &RolePermission, words: &[String]) {
        let is_logged = || words.iter().all(|word| self.role_log(&permission.role).contains(word));
        let give_up = Instant::now() + PATIENCE;
        while !is_logged() {
            assert!(
                Instant::now() < give_up,
                "{permission:?}: no {words:?} in\n{}",
                self.role_log(&permission.role)
            );
            sleep(POLL_INTERVAL).await;
        }
    }

    fn role_log(&self, role: &str) -> String {
        let mappings = self.mappings.iter().filter(|mapping| mapping.role == role);
        mappings.flat_map(|mapping| mapping.function.output_lines()).map(|line| line.text + "\n").collect()
    }

    pub(super) fn log(&self) -> String {
        let denied = self.account.decisions().into_iter().filter(|decision| !decision.allowed);
        let denied: String = denied.map(|decision| format!("{decision:?}\n")).collect();
        self.mappings.iter().map(|mapping| self.role_log(&mapping.role)).collect::<String>() + &denied
    }

    /// Returns the URL of the variant's queue whose name has this suffix.
    pub(super) fn find_queue_url(&self, end: &str) -> Option<String> {
        let mut names = self
            .template
            .resources_by_type("AWS::SQS::Queue")
            .map(|(id, queue)| queue["QueueName"].as_str().unwrap_or(id).to_owned());
        names.find(|name| name.ends_with(end)).map(|name| self.template.queue_url(&name))
    }

    /// Returns the mapping for the producers' queue.
    pub(super) fn source(&self) -> &MotoMapping {
        let is_first = |mapping: &&MotoMapping| {
            !["failed-message-processor", "final-dlq-annotator"].contains(&mapping.handler.as_str())
        };
        self.mappings.iter().find(is_first).unwrap()
    }
}

/// Returns a policy with no delays and few attempts; the circuit breaker needs no permissions of its own.
fn quick_policy(policy: &str, handler: &str) -> String {
    let policy: Value = serde_json::from_str(policy).unwrap();
    let backoff = json!({ "kind": "fixed", "delay_seconds": 0, "jitter": "none" });
    let mut quick = json!({ "max_attempts": 3, "backoff": backoff, "circuit_breaker": false });
    if let Some(value) = policy.get("long_delays") {
        quick["long_delays"] = value.clone();
    }
    if handler == "async-retry-handler" {
        quick.as_object_mut().unwrap().remove("circuit_breaker"); // not supported by this handler
        // A first failure waits on the function's own queue until after the test, even on a slow machine.
        quick["backoff"] =
            json!({ "kind": "schedule", "delays_seconds": [LONG_DELAY_SECONDS, 0], "jitter": "none" });
    }
    quick.to_string()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}
