//! Functions in AWS's own runtime for Java: their exceptions in the dead letters.

use std::fs;

use redeliver_tests::runtimes::{built_functions_folder, native_client, runtimes_folder};

use super::*;

/// Returns the command line for `--exec`.
fn java_command_line(handler: &str) -> String {
    let folder = built_functions_folder("java");
    let class_path = format!("{0}/classes:{0}/lib/*", folder.display());
    let client = "com.amazonaws.services.lambda.runtime.api.client";
    let native = format!("-D{client}.runtimeapi.NativeClient.JNI={}", native_client().display());
    format!("java -XX:TieredStopAtLevel=1 {native} -cp {class_path} {client}.AWSLambda {handler}")
}

#[test]
#[ignore = "needs Java: cargo xtask test"]
fn a_java_exception_is_recorded_as_its_runtime_reports_it() {
    let none = |text: &str| text.to_owned();
    let at = |text: &str, place: &str| format!("{text} (at functions.Reasons.{place})");
    let declined = "functions.Reasons$CardDeclined";
    let expected = [
        ("throws", declined, at("no funds", "charge(Reasons.java:58)")),
        // For an exception from another thread, the runtime reports no location.
        ("gets", declined, at("no funds", "handle(Reasons.java:25)")),
        ("joins", declined, none("no funds")),
        ("wraps", declined, at("no funds", "wrap(Reasons.java:65)")),
        ("wraps twice", declined, none("no funds")),
        // These exceptions have causes, but the runtime drops them.
        ("says more", "java.lang.RuntimeException", at("order 7: it failed", "handle(Reasons.java:37)")),
        ("suppresses", "java.lang.RuntimeException", at("two failed", "handle(Reasons.java:42)")),
        (
            "reflects",
            "java.lang.reflect.InvocationTargetException",
            at("java.lang.reflect.InvocationTargetException", "handle(Reasons.java:40)"),
        ),
        (
            "says nothing",
            "java.lang.IllegalStateException",
            at("java.lang.IllegalStateException", "handle(Reasons.java:46)"),
        ),
        (
            "overflows",
            "java.lang.StackOverflowError",
            at("java.lang.StackOverflowError", "overflow(Reasons.java:70)"),
        ),
        ("exits", "Runtime.Exited", none("the function's process ended: exit status: 3")),
    ];
    assert_causes(&java_command_line("functions.Reasons::handle"), &[], &expected);
}

#[test]
#[ignore = "needs Java: cargo xtask test"]
fn the_documented_handler_runs() {
    let page = fs::read_to_string(workspace_root().join("docs/own-function.md")).expect("the page exists");
    let example = page.split("```java\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = example.expect("the page has an example in Java");
    let file = fs::read_to_string(runtimes_folder().join("java/src/functions/Charge.java"))
        .expect("the file exists");
    let indented: String = example.lines().map(|line| format!("    {line}\n")).collect();
    assert!(file.contains(&indented), "{file}\nhas not\n{indented}");
    let place = "no funds (at functions.Charge.charge(Charge.java:17))".to_owned();
    let expected = [("fails", "functions.Charge$CardDeclined", place)];
    assert_causes(&java_command_line("functions.Charge::handle"), &[], &expected);
}

#[test]
#[ignore = "needs Java: cargo xtask test"]
fn a_class_load_error_is_reported_before_any_send() {
    let output = OwnFunctionRun::new(&["throws"]).run_exec(
        &java_command_line("functions.NeverLoads::handle"),
        &[],
        &[],
    );
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let stderr = stderr_text(&output);
    assert!(stderr.contains("java.lang.NumberFormatException: For input string: \"many\""), "{stderr}");
    assert!(stderr.ends_with("error: --exec exited during startup: exit status: 1\n"), "{stderr}");
}
