//! Enforced permissions: each function runs with its own role's statements from the template, and with each permission
//! removed in turn. `tests/support/moto_iam.py` describes which parts of IAM moto checks.

mod archive;
mod archive_redrive;
mod aws_models;
mod commands;
mod expected;
mod mapping;
mod messages;
mod others;
mod permissions;
mod queues;
mod setter;
mod stack;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use futures_util::{StreamExt as _, stream};
use redeliver_tests::http_target::HttpTargetServer;
use redeliver_tests::settings::workspace_root;
use redeliver_tests::template::Template;

use expected::{UsedPermissions, expected_log};
use messages::MotoMessages;
use permissions::RolePermission;
use stack::MotoStack;

/// The number of cases that run concurrently for a variant: moto is a single process.
const CASES_AT_ONCE: usize = 8;

macro_rules! variants {
    ($($test:ident: $variant:literal,)*) => {
        /// The variants in `infra/test/stack-variants.ts`.
        const VARIANTS: &[&str] = &[$($variant),*];
        $(
            #[tokio::test]
            async fn $test() {
                check_permissions($variant).await;
            }
        )*
    };
}

variants! {
    permissions_are_exact_with_an_http_target: "http",
    permissions_are_exact_with_a_lambda_target_a_key_and_a_vpc: "lambda",
    permissions_are_exact_with_long_delays: "long-delays",
    permissions_are_exact_with_direct_resend: "direct-resend",
    permissions_are_exact_with_direct_resend_on_an_existing_queue: "direct-resend-existing-queue",
    permissions_are_exact_with_visibility: "visibility",
    permissions_are_exact_with_visibility_on_an_existing_queue: "visibility-existing-queue",
    permissions_are_exact_with_ordered: "ordered",
    permissions_are_exact_with_ordered_on_an_existing_queue: "ordered-existing-queue",
    permissions_are_exact_with_a_users_own_function_and_ordered: "function-ordered",
    permissions_are_exact_on_an_existing_queue: "existing-queue",
    permissions_are_exact_on_a_queue_in_the_stack: "queue-of-the-stack",
    permissions_are_exact_on_an_existing_queue_with_keys: "existing-queue-with-keys",
    permissions_are_exact_with_a_users_own_function: "function",
    permissions_are_exact_with_a_users_own_function_and_direct_resend: "function-direct-resend",
    permissions_are_exact_with_a_users_own_function_and_visibility: "function-visibility",
    permissions_are_exact_with_asynchronous_invocations: "async-retry",
}

/// The templates of all variants, by name.
static TEMPLATES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let directory = templates_directory();
    let _of_an_earlier_run = std::fs::remove_dir_all(&directory);
    let mut write = Command::new("node");
    write.current_dir(workspace_root().join("infra")).args(["--import", "tsx", "test/write-templates.ts"]);
    // The stack's own tests run the CDK's validation.
    write.env("CDK_VALIDATION", "false");
    assert!(write.arg(&directory).status().unwrap().success(), "the templates are synthesized");
    let files = std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path());
    // Templates with parameters are YAML; a test in infra/ compares each of their configurations with a variant.
    let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "json"));
    let named = |file: PathBuf| file.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|file| (named(file.clone()), std::fs::read_to_string(file).unwrap())).collect()
});

fn templates_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("permission-templates")
}

#[tokio::test]
async fn every_variant_of_the_stack_is_tested() {
    // The module `archive` removes the permissions that these two variants add.
    let has_archive = |variant: &&str| variant.starts_with("archive");
    let written: BTreeSet<_> =
        TEMPLATES.keys().map(String::as_str).filter(|variant| !has_archive(variant)).collect();
    assert_eq!(written, VARIANTS.iter().copied().collect());
}

async fn check_permissions(variant: &'static str) {
    let target = HttpTargetServer::start().await;
    let used = assert_permissions_suffice(variant, &target).await;
    let cases = used.iter().map(|permission| assert_permission_needed(variant, &target, permission));
    stream::iter(cases).buffer_unordered(CASES_AT_ONCE).collect::<()>().await;
}

/// Checks that the template's permissions suffice for all results and that all are used. Returns the permissions to
/// test with [`assert_permission_needed`].
async fn assert_permissions_suffice(variant: &'static str, target: &HttpTargetServer) -> Vec<RolePermission> {
    let stack = MotoStack::deploy(variant, target).await;
    let messages = MotoMessages::for_stack(&stack, target);
    setter::assert_setter_works(&stack, target).await;
    messages.send_messages(&stack).await;
    stack.exercise_lambda_permissions().await;
    stack.poll_until_idle(&|| false).await;
    messages.assert_outcomes(&stack, true).await;

    let found = UsedPermissions::for_stack(&stack);
    assert_eq!(found.unexplained, Vec::<String>::new(), "{variant}: unused\n{}", stack.log());
    assert_eq!(found.denied, Vec::<String>::new(), "{variant}\n{}", stack.log());
    others::assert_denied(&stack).await;
    found.used.into_iter().filter(|permission| is_first_of_its_kind(variant, &stack, permission)).collect()
}

/// Checks that without this permission a request is refused and reported, and that with it every message has its
/// expected result.
async fn assert_permission_needed(
    variant: &'static str,
    target: &HttpTargetServer,
    permission: &RolePermission,
) {
    let stack = MotoStack::deploy(variant, target).await;
    let permission = stack.corresponding_permission(permission);
    let messages = MotoMessages::for_stack(&stack, target);
    stack.remove_permission(&permission).await;
    messages.send_messages(&stack).await;
    stack.poll_until_idle(&|| stack.is_denied(&permission)).await;
    assert!(stack.is_denied(&permission), "{variant}: {permission:?} was not missed\n{}", stack.log());
    // Continues briefly: the consequences of a refusal must not lose anything either.
    stack.poll_queues_once().await;
    if let Some(words) = expected_log(&stack, &permission) {
        stack.assert_reported(&permission, &words).await;
    }

    stack.restore_permissions().await;
    messages.resend_if_dropped(&stack).await;
    stack.poll_until_idle(&|| false).await;
    messages.assert_outcomes(&stack, false).await;
}

/// Returns true if no earlier variant has the same permission, for the same function and strategy.
fn is_first_of_its_kind(variant: &str, stack: &MotoStack, permission: &RolePermission) -> bool {
    let kind = permissions::permission_kind(&stack.template, permission);
    let earlier = VARIANTS.iter().take_while(|earlier| **earlier != variant);
    earlier.into_iter().all(|earlier| {
        let account = &stack.account;
        let template = Template::from_text(&TEMPLATES[*earlier], &account.id, &account.endpoint_url());
        permissions::permissions(&permissions::statements_by_role(&template))
            .iter()
            .all(|permission| permissions::permission_kind(&template, permission) != kind)
    })
}
