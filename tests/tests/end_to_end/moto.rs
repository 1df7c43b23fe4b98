//! Rights, enforced: each function with its own role's statements, as they are in the template, and with each of them taken
//! away. What moto checks of IAM, and what not, is in `tests/support/moto_iam.py`.

mod archive;
mod archive_redrive;
mod aws_models;
mod commands;
mod expected;
mod mapping;
mod messages;
mod others;
mod queues;
mod rights;
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

use expected::{UsedRights, said_in_the_log};
use messages::MotoMessages;
use rights::RoleRight;
use stack::MotoStack;

/// Of a variant at the same time: moto is one process.
const CASES_AT_ONCE: usize = 8;

macro_rules! variants {
    ($($test:ident: $variant:literal,)*) => {
        /// As `infra/test/stack-variants.ts` has them.
        const VARIANTS: &[&str] = &[$($variant),*];
        $(
            #[tokio::test]
            async fn $test() {
                rights_of($variant).await;
            }
        )*
    };
}

variants! {
    every_right_is_needed_and_enough_with_an_http_target: "http",
    every_right_is_needed_and_enough_with_a_lambda_target_a_key_and_a_vpc: "lambda",
    every_right_is_needed_and_enough_with_long_delays: "long-delays",
    every_right_is_needed_and_enough_with_direct_resend: "direct-resend",
    every_right_is_needed_and_enough_with_direct_resend_on_an_existing_queue: "direct-resend-existing-queue",
    every_right_is_needed_and_enough_with_visibility: "visibility",
    every_right_is_needed_and_enough_with_visibility_on_an_existing_queue: "visibility-existing-queue",
    every_right_is_needed_and_enough_with_ordered: "ordered",
    every_right_is_needed_and_enough_with_ordered_on_an_existing_queue: "ordered-existing-queue",
    every_right_is_needed_and_enough_with_a_function_of_a_users_own_and_ordered: "function-ordered",
    every_right_is_needed_and_enough_on_an_existing_queue: "existing-queue",
    every_right_is_needed_and_enough_on_a_queue_of_the_stack: "queue-of-the-stack",
    every_right_is_needed_and_enough_on_an_existing_queue_with_keys: "existing-queue-with-keys",
    every_right_is_needed_and_enough_with_a_function_of_a_users_own: "function",
    every_right_is_needed_and_enough_with_a_function_of_a_users_own_and_direct_resend: "function-direct-resend",
    every_right_is_needed_and_enough_with_a_function_of_a_users_own_and_visibility: "function-visibility",
    every_right_is_needed_and_enough_with_asynchronous_invocations: "async-retry",
}

/// The templates of all variants, by name.
static TEMPLATES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let directory = templates_directory();
    let _of_an_earlier_run = std::fs::remove_dir_all(&directory);
    let mut write = Command::new("node");
    write.current_dir(workspace_root().join("infra")).args(["--import", "tsx", "test/write-templates.ts"]);
    // The tests of the stack have the CDK check them.
    write.env("CDK_VALIDATION", "false");
    assert!(write.arg(&directory).status().unwrap().success(), "the templates are synthesized");
    let files = std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path());
    // Those with parameters are YAML: a test of infra/ compares each of their choices with a variant.
    let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "json"));
    let named = |file: PathBuf| file.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|file| (named(file.clone()), std::fs::read_to_string(file).unwrap())).collect()
});

fn templates_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rights-templates")
}

#[tokio::test]
async fn every_variant_of_the_stack_is_tested() {
    // The module `archive` takes away the rights that these two add.
    let has_archive = |variant: &&str| variant.starts_with("archive");
    let written: BTreeSet<_> =
        TEMPLATES.keys().map(String::as_str).filter(|variant| !has_archive(variant)).collect();
    assert_eq!(written, VARIANTS.iter().copied().collect());
}

async fn rights_of(variant: &'static str) {
    let target = HttpTargetServer::start().await;
    let used = enough(variant, &target).await;
    let cases = used.iter().map(|right| needed(variant, &target, right));
    stream::iter(cases).buffer_unordered(CASES_AT_ONCE).collect::<()>().await;
}

/// All ends are reached with the rights of the template, and all of these are used. Those that are worth a case here.
async fn enough(variant: &'static str, target: &HttpTargetServer) -> Vec<RoleRight> {
    let stack = MotoStack::deploy(variant, target).await;
    let messages = MotoMessages::for_stack(&stack, target);
    setter::has_worked(&stack, target).await;
    messages.send_messages(&stack).await;
    stack.lambda_works_with_its_roles().await;
    stack.poll_until_idle(&|| false).await;
    messages.assert_ended(&stack, true).await;

    let found = UsedRights::for_stack(&stack);
    assert_eq!(found.unexplained, Vec::<String>::new(), "{variant}: unused\n{}", stack.log());
    assert_eq!(found.denied, Vec::<String>::new(), "{variant}\n{}", stack.log());
    others::are_denied(&stack).await;
    found.used.into_iter().filter(|right| is_first_of_its_kind(variant, &stack, right)).collect()
}

/// Without this right a request is refused and reported. When the right is back, every message ends where it should.
async fn needed(variant: &'static str, target: &HttpTargetServer, right: &RoleRight) {
    let stack = MotoStack::deploy(variant, target).await;
    let right = stack.same_right(right);
    let messages = MotoMessages::for_stack(&stack, target);
    stack.take_away(&right).await;
    messages.send_messages(&stack).await;
    stack.poll_until_idle(&|| stack.is_denied(&right)).await;
    assert!(stack.is_denied(&right), "{variant}: {right:?} was not missed\n{}", stack.log());
    // It continues for a moment: the consequences of a refusal must lose nothing either.
    stack.poll_queues_once().await;
    if let Some(words) = said_in_the_log(&stack, &right) {
        stack.assert_reported(&right, &words).await;
    }

    stack.give_back().await;
    messages.resend_refused(&stack).await;
    stack.poll_until_idle(&|| false).await;
    messages.assert_ended(&stack, false).await;
}

/// The same right of the same function with the same strategy has one case, in the first variant that has it.
fn is_first_of_its_kind(variant: &str, stack: &MotoStack, right: &RoleRight) -> bool {
    let kind = rights::kind(&stack.template, right);
    let earlier = VARIANTS.iter().take_while(|earlier| **earlier != variant);
    earlier.into_iter().all(|earlier| {
        let account = &stack.account;
        let template = Template::from_text(&TEMPLATES[*earlier], &account.id, &account.endpoint_url());
        rights::rights(&rights::roles(&template)).iter().all(|right| rights::kind(&template, right) != kind)
    })
}
