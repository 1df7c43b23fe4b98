//! A function with AWS's own library for Go: its errors in the dead letters.

use redeliver_tests::runtimes::built_functions_folder;

use super::*;

#[test]
#[ignore = "needs Go: cargo xtask test"]
fn a_go_error_has_its_type_name_and_a_panic_has_its_location() {
    let text = |text: &str| text.to_owned();
    let at = |text: &str, line: u32| format!("{text} (at reasons (scripted/reasons.go:{line}))");
    let expected = [
        ("fails", "cardDeclined", text("order 7: no funds")),
        ("points", "cardDeclined", text("order 7: no funds")),
        ("says", "errorString", text("no such order")),
        // The library drops the wrapped error.
        ("wraps", "wrapError", text("charge: order 7: no funds")),
        ("panics", "cardDeclined", at("order 7: no funds", 38)),
        ("panics with a text", "string", at("no such order", 40)),
        (
            "reads beyond the end",
            "boundsError",
            at("runtime error: index out of range [123] with length 0", 43),
        ),
        ("exits", "Runtime.Exited", text("the function's process ended: exit status: 3")),
    ];
    let exec = built_functions_folder("go").join("scripted").display().to_string();
    assert_causes(&exec, &[("HANDLER", "reasons")], &expected);
}
