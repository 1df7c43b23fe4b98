use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use super::worker::count_abandoned;
use super::*;

fn filter_picks(filter: &str, document: &str) -> bool {
    Filter::new(filter).unwrap().judge_document("m", document).unwrap() == Choice::Picked
}

/// Returns the reason why the document is not judged.
fn not_judged_reason(filter: &str, document: &str) -> String {
    match Filter::new(filter).unwrap().judge_document("m", document).unwrap() {
        Choice::NotJudged(why) => why,
        choice => panic!("{filter}: {choice:?}"),
    }
}

#[test]
fn a_filter_can_match_the_body_the_attributes_and_the_error() {
    let document =
        r#"{"error_type":"A","attributes":{"tenant":"t1"},"body":{"data":{"cents":12345678901234567890}}}"#;
    assert!(filter_picks(r#".error_type == "A" and .attributes.tenant == "t1""#, document));
    assert!(filter_picks(".body.data.cents > 12345678901234567000", document));
    assert!(!filter_picks(r#".attributes.tenant == "t2""#, document));
    assert!(!filter_picks(".body.data.missing", document), "null");
    assert!(!filter_picks("empty", document));
}

#[test]
fn an_invalid_filter_is_refused_with_the_position_of_the_error() {
    for (filter, offset, reason) in [
        (".error_type ==", 14, "expected term"),
        (".body | lenght", 8, "there is no filter of this name with this number of arguments"),
        (".a | $undefined", 5, "there is no variable of this name with this number of arguments"),
        (".a[", 3, "expected closing bracket"),
    ] {
        let FilterError::Compile { syntax_error, .. } = Filter::new(filter).unwrap_err() else {
            panic!("{filter}")
        };
        assert_eq!((syntax_error.offset, syntax_error.reason.as_str()), (offset, reason), "{filter}");
    }
}

#[test]
fn a_filter_cannot_access_anything_but_the_message() {
    for filter in [
        "env",
        "$ENV",
        "input",
        "inputs",
        "debug",
        "debug(1)",
        "stderr",
        "halt",
        "halt_error",
        "input_filename",
    ] {
        assert!(matches!(Filter::new(filter), Err(FilterError::Compile { .. })), "{filter}");
    }
    for module in [r#"include "x"; ."#, r#"import "x" as x; ."#] {
        assert!(matches!(Filter::new(module), Err(FilterError::Compile { .. })), "{module}");
    }
}

#[test]
fn a_filter_error_contains_no_value_from_the_message() {
    let document = r#"{"a":"CANARY as object","n":4242,"o":{"CANARY":"CANARY"},"l":["CANARY"]}"#;
    let raised = "it raises an error, whose text may quote the message";
    for (filter, reason) in [
        (".a + {}", "cannot calculate with two values"),
        (".o - .l", "cannot calculate with two values"),
        (".a.b", "cannot index a value with another"),
        (".a | keys", "cannot use a value as iterable (array or object)"),
        (".l | implode", "cannot use a value as integer"),
        ("(.a | ascii_downcase) |= 1", "invalid path expression"),
        (".a | tojson | .[1:] | fromjson", raised),
        (".a | tonumber", raised),
        (".a | fromdateiso8601", raised),
        (".a | test(\"(\")", raised),
        (".a | @base64d", raised),
        (".o | error", raised),
        ("error(.a)", raised),
        ("error(\"cannot use \" + .a)", raised),
    ] {
        assert_eq!(not_judged_reason(filter, document), reason, "{filter}");
    }
}

#[test]
fn an_edit_needs_exactly_one_output_and_keeps_numbers_as_written() {
    let edit =
        |filter: &str, document: &str| Filter::new(filter).unwrap().edit_document("m", document).unwrap();
    let edited =
        edit(".body.data.fixed = true", r#"{"body":{"data":{"n":1.10,"big":123456789012345678901}}}"#);
    assert_eq!(edited.unwrap(), r#"{"body":{"data":{"n":1.10,"big":123456789012345678901,"fixed":true}}}"#);
    assert_eq!(edit("empty", "{}").unwrap_err(), "it has no output; one is needed");
    assert_eq!(edit("., .", "{}").unwrap_err(), "it has several outputs; one is needed");
}

#[test]
fn a_filter_without_a_boolean_output_is_refused() {
    let document = r#"{"error_type":"CANARY","n":4242,"o":{"CANARY":1},"l":["CANARY"]}"#;
    let assigned = "a single `=` changes the message: compare with `==`";
    let bare = "compare it with `==`, or with `!= null` if it only has to exist";
    let selected = "the condition alone is enough: leave out `select(` and its `)`";
    for (filter, given, hint) in [
        (r#".error_type = "X""#, "an object", assigned),
        (r#".error_type="X" and true"#, "an object", assigned),
        (".n |= 1", "an object", assigned),
        (".", "an object", bare),
        (".error_type", "a string", bare),
        (".n", "a number", bare),
        ("nan", "a number", bare),
        (".l", "an array", bare),
        (r#".l | map(. == "X")"#, "an array", bare),
        (r#"select(.error_type == "CANARY")"#, "an object", selected),
    ] {
        let refused = Filter::new(filter).unwrap().judge_document("m", document).unwrap_err();
        let text = refused.to_string();
        let wanted = "not true or false";
        assert_eq!(text, format!("the filter `{filter}` returns {given} for message m, {wanted}; {hint}"));
        assert!(!text.replace(filter, "").contains("CANARY") && !text.contains("4242"), "{text}");
    }
}

#[test]
fn a_comparison_guarded_by_numbers_skips_messages_without_the_member() {
    let small = ".body.data?.cents? | numbers < 1000";
    for (body, is_picked) in [
        (r#"{"data":{"cents":999}}"#, true),
        (r#"{"data":{"cents":1000}}"#, false),
        (r#"{"data":{"cents":"999"}}"#, false),
        (r#"{"data":{}}"#, false),
        (r#""text""#, false),
    ] {
        assert_eq!(filter_picks(small, &format!(r#"{{"body":{body}}}"#)), is_picked, "{body}");
    }
    assert!(
        filter_picks(".body.data.cents < 1000", r#"{"body":{"data":{}}}"#),
        "jq treats null as less than any number"
    );
}

#[test]
fn messages_picked_because_a_member_is_missing_are_counted() {
    let check_absent = |filter: &str, documents: &[&str]| {
        let filter = Filter::new(filter).unwrap();
        for document in documents {
            filter.judge_document("m", document).unwrap();
        }
        filter
            .missing_members()
            .map(|MissingMembers { messages, members, .. }| (messages, members.join(" or ")))
    };
    let documents = [
        r#"{"body":{"data":{"cents":1}}}"#,
        r#"{"body":{"data":{"cents":5000}}}"#,
        r#"{"body":{"data":{"cents":null}}}"#,
        r#"{"body":{}}"#,
    ];
    let two = Some((2, ".body.data.cents".to_owned()));
    assert_eq!(check_absent(".body.data.cents < 1000", &documents), two);
    assert_eq!(check_absent("1000 >= .body.data?.cents", &documents), two);
    assert_eq!(check_absent(r#".body["data"].cents <= 1000 and (.body.x | not)"#, &documents), two);
    for silent in [
        ".body.data.cents > 1000",
        "1000 < .body.data.cents",
        ".body.data.cents != null and .body.data.cents < 1000",
        ".body.data?.cents? | numbers < 1000",
        ".body.data.cents == 1",
        ".body.data.cents == null",
        ".body.data.cents != null",
        "null != .body.data.cents",
        "true",
    ] {
        assert_eq!(check_absent(silent, &documents), None, "{silent}");
    }
    assert_eq!(check_absent(".body.data.cents != 1", &documents), two);
    assert_eq!(check_absent("1 != .body.data.cents", &documents), two);
    assert_eq!(check_absent(".attempts < 3", &[r#"{"attempts":null}"#]), Some((1, ".attempts".to_owned())));
}

#[test]
fn the_suggested_comparison_skips_messages_without_the_member() {
    let complete = r#"{"error_type":"NON","body":{"data":{"cents":999,"kind":"b","the day":"2026-01-01","limit":1000}}}"#;
    let absent = r#"{"error_type":"NON","body":{"data":{}}}"#;
    for (written, instead) in [
        (".body.data?.cents? < 1000", "(.body.data?.cents? | numbers < 1000)"),
        ("1000 >= .body.data.cents", "(.body.data.cents | numbers <= 1000)"),
        (r#".body["data"]."the day" < "2026-02""#, r#"(.body.data."the day" | strings < "2026-02")"#),
        (r#".body.data.kind != "a""#, r#"(.body.data.kind != null and .body.data.kind != "a")"#),
        (".body.data.cents < .error_type", "(.body.data.cents != null and .body.data.cents < .error_type)"),
        (".body.data.cents < (1000 + 1)", "(.body.data.cents != null and .body.data.cents < …)"),
    ] {
        let filter = |comparison: &str| format!(r#".error_type == "NON" and {comparison}"#);
        let picking_filter = Filter::new(&filter(written)).unwrap();
        assert_eq!(picking_filter.judge_document("m", absent).unwrap(), Choice::Picked, "{written}");
        assert_eq!(picking_filter.missing_members().unwrap().replacements, [instead]);
        if !instead.contains('…') {
            assert!(
                filter_picks(&filter(instead), complete) && !filter_picks(&filter(instead), absent),
                "{instead}"
            );
        }
    }
    let either = Filter::new(r#".body.data.cents < 3 or .error_type == "NON""#).unwrap();
    either.judge_document("m", absent).unwrap();
    let instead = "(.body.data.cents != null and .body.data.cents < 3)";
    assert_eq!(either.missing_members().unwrap().replacements, [instead]);
    assert!(
        filter_picks(&format!(r#"{instead} or .error_type == "NON""#), absent),
        "the other side still counts"
    );
}

#[test]
fn an_unknown_member_is_refused_with_a_suggestion() {
    let compile_filter =
        |filter: &str| Filter::for_dead_letters(filter).map(drop).map_err(|error| error.to_string());
    let suggestion = "did you mean `.error_type`?";
    assert_eq!(
        compile_filter(r#".erorr_type != "X""#).unwrap_err(),
        "the filter `.erorr_type != \"X\"` is wrong at byte 1 (`erorr_type != \"X\"`): there is no `.erorr_type`; \
         did you mean `.error_type`?"
    );
    for (filter, suggestion) in [
        (r#".attempts > 1 and (.erorr_type | test("X"))"#, suggestion),
        (r#".["ErrorType"] == "X""#, suggestion),
        (r#"select(.errortype == "X")"#, suggestion),
        (r#"if .error_typ == "X" then true else false end"#, suggestion),
        (r#"if .attempts == 1 then true else .error_typ == "X" end"#, suggestion),
        (r#"if .attempts == 1 then .error_typ == "X" else true end"#, suggestion),
        (".body.data.kind = .error_tpye", suggestion),
        (".data.cents < 3", "did you mean `.body.data`?"),
        (
            ".tenant",
            "a dead letter has .message_id, .sent_at, .error_type, .error_details, .attempts, .fingerprint, .attributes, .body",
        ),
    ] {
        let refused = compile_filter(filter).unwrap_err();
        assert!(refused.ends_with(suggestion), "{refused}");
    }
    for right in [
        r#".body | .erorr_type != "X""#,
        ".body.data.anything and .attributes.tenant",
        "[.body.data.lines[] | .anything] | any",
        r#".mine = 1 | .body.data.kind = "a""#,
        "def f: .anything; .body | f",
    ] {
        assert_eq!(compile_filter(right), Ok(()), "{right}");
    }
}

#[test]
fn a_filter_over_the_length_or_nesting_limit_is_refused() {
    let reason = |filter: &str| match Filter::for_dead_letters(filter) {
        Err(FilterError::Compile { text, syntax_error }) => {
            assert!(text.len() < 100, "it is not printed in full: {text}");
            syntax_error.reason
        }
        other => panic!("{filter:.50}: {other:?}"),
    };
    for (open, close) in [("[", "]"), ("(", ")"), ("{\"a\":", "}")] {
        for depth in [201, 1000] {
            let filter = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(reason(&filter), "more than 200 brackets are open", "{depth} {open}");
        }
        assert!(Filter::new(&format!("{}1{}", open.repeat(200), close.repeat(200))).is_ok(), "{open}");
    }
    assert_eq!(reason(&"[".repeat(20_000)), "it has 20000 bytes; the limit is 16384");
}

/// Nesting without brackets is limited only by the length of the text.
#[test]
fn the_deepest_filter_does_not_overflow_the_stack() {
    for text in [
        "-".repeat(16_000) + "1",
        "if 1 then ".repeat(1100) + "1" + &" end".repeat(1100),
        "try ".repeat(4000) + "1",
        "def f: ".repeat(1600) + "1" + &"; 1".repeat(1600),
        "1 | ".repeat(4000) + "1",
        "1 as $x | ".repeat(1600) + "1",
        "reduce 1 as $x (0; ".repeat(190) + "1" + &")".repeat(190),
    ] {
        let refused = Filter::for_dead_letters(&text).and_then(|filter| filter.judge_document("m", "{}"));
        let given = refused.unwrap_err().to_string();
        assert!(given.contains("returns a number for message m, not true or false"), "{text:.20}: {given}");
    }
}

/// Creates a filter with a time limit that is sufficient even on a busy machine.
fn patient_filter(filter: &str) -> Filter {
    Filter { time_limit: Duration::from_secs(120), ..Filter::new(filter).unwrap() }
}

/// A stack overflow would terminate the whole program.
#[test]
fn no_message_overflows_a_filters_stack() {
    let (open, close) = ("[".repeat(1000), "]".repeat(1000));
    let deep = format!(r#"{{"body":{open}1{close}}}"#);
    for filter in [
        "[..] | length == 1002",
        "[paths] | length == 1001",
        "walk(.) == .",
        "(tojson | fromjson) != .",
        "(.body | tojson | fromjson) == .body",
        "(.. |= .) == .",
        "(.body | flatten) == [1]",
        "del(..|numbers) != .",
        "[limit(2; recurse(.; true))] | length == 2",
    ] {
        let judged = patient_filter(filter).judge_document("m", &deep).unwrap();
        assert!(matches!(judged, Choice::Picked | Choice::NotJudged(_)), "{filter}: {judged:?}");
    }
    for text in [
        "[".repeat(1 << 20),
        "[".repeat(1001) + &"]".repeat(1001),
        // jaq treats the rest of a line after `#` as a comment; JSON does not.
        format!("#\"\n{}", "[".repeat(1 << 20)),
        r#"["]",["#.repeat(1 << 17),
    ] {
        let document = serde_json::json!({ "body": text }).to_string();
        for filter in [
            ".body | fromjson | true",
            "(.body | tonumber) > 1",
            ".body | @json | fromjson | fromjson | true",
        ] {
            let error = "it raises an error, whose text may quote the message".to_owned();
            let judged = patient_filter(filter).judge_document("m", &document).unwrap();
            assert_eq!(judged, Choice::NotJudged(error), "{filter} {text:.20}");
        }
    }
    let brackets = serde_json::json!({ "body": format!("[\"{}\"]", "[".repeat(2000)) }).to_string();
    assert!(filter_picks(".body | fromjson | .[0] | length == 2000", &brackets));
}

#[test]
fn a_10000_level_recursion_does_not_overflow_the_stack() {
    let deep = patient_filter("def f: if . > 0 then 1 + (. - 1 | f) else 0 end; 10000 | f == 10000");
    assert_eq!(deep.judge_document("m", "{}"), Ok(Choice::Picked));
}

#[test]
fn a_single_thread_judges_thousands_of_messages() {
    let filter = Filter::new(".n > 5").unwrap();
    let picked =
        (0..5000).filter(|n| filter.judge_document("m", &format!(r#"{{"n":{n}}}"#)) == Ok(Choice::Picked));
    assert_eq!(picked.count(), 4994);
}

/// Four messages from a stranger, among many others, must not end a redrive. The filter's abandoned threads end with
/// this test's process.
#[test]
fn an_endless_filter_is_stopped_after_four_messages_or_eight_threads() {
    if !is_alone() {
        return assert_passes_alone(
            test_binary_command(),
            "an_endless_filter_is_stopped_after_four_messages_or_eight_threads",
        );
    }
    let late = Ok(Choice::NotJudged("the filter takes longer than 1 s on it".to_owned()));
    let endless_filter = || Filter::new("def f: f; if .endless then f else true end").unwrap();
    let filter = endless_filter();
    let choice = |document: &str| filter.judge_document("m", document);
    assert_eq!(choice(r#"{"endless":true}"#), late);
    assert_eq!(choice("{}"), Ok(Choice::Picked), "the next message is judged");
    for _ in 0..3 {
        assert_eq!(choice(r#"{"endless":true}"#), late);
    }
    assert_eq!(
        choice(r#"{"endless":true}"#).unwrap_err().to_string(),
        "the filter `def f: f; if .endless then f else true end` was stopped on 4 messages in a row; on the last one, m, \
         it takes longer than 1 s"
    );
    let filter = endless_filter();
    for _ in 0..2 {
        assert_eq!(
            filter.edit_document("m", r#"{"endless":true}"#),
            Ok(Err("the filter takes longer than 1 s on it".to_owned()))
        );
        assert_eq!(filter.judge_document("m", "{}"), Ok(Choice::Picked));
    }
    let refused = "cannot be run: 8 earlier runs of a filter are still running and cannot be stopped: restart \
                   redeliver";
    for error in
        [filter.judge_document("m", r#"{"endless":true}"#).unwrap_err(), Filter::new("true").unwrap_err()]
    {
        assert!(error.to_string().ends_with(refused), "{error}");
    }
}

#[test]
fn an_abandoned_thread_counts_until_it_ends() {
    if !is_alone() {
        return assert_passes_alone(test_binary_command(), "an_abandoned_thread_counts_until_it_ends");
    }
    let (end, ends) = channel::<()>();
    let alive = Arc::new(());
    let (requests, _asked) = channel();
    Worker { requests, running: Arc::downgrade(&alive) }.abandon();
    let thread = thread::spawn(move || drop((ends.recv(), alive)));
    assert_eq!(count_abandoned(), 1);
    drop(end);
    thread.join().unwrap();
    assert_eq!(count_abandoned(), 0);
}

#[test]
fn a_filter_output_larger_than_any_message_is_refused() {
    let large = patient_filter(r#""x" * 10000000"#).edit_document("m", "{}").unwrap();
    assert_eq!(large, Err("its output has more than 8 MiB".to_owned()));
}

/// If the panic ended the thread, each message that causes one would take a second, and four in a row would end the
/// run.
#[test]
fn a_jaq_panic_leaves_only_its_message_unjudged() {
    let filter = patient_filter(r#"if .far then 9223372036854775807 | strftime("%c") else true end"#);
    for _ in 0..2 * TIMEOUTS_MAX {
        let far = filter.judge_document("m", r#"{"far":true}"#);
        assert_eq!(far, Ok(Choice::NotJudged("the filter fails on it".to_owned())));
    }
    assert_eq!(filter.judge_document("m", "{}"), Ok(Choice::Picked));
}

#[test]
fn local_times_in_a_filter_use_the_users_time_zone() {
    if !is_alone() {
        let mut command = test_binary_command();
        command.env("TZ", "XYZ-5:45");
        return assert_passes_alone(command, "local_times_in_a_filter_use_the_users_time_zone");
    }
    assert!(filter_picks(r#"0 | strflocaltime("%H:%M") == "05:45""#, "{}"));
    assert!(filter_picks("0 | localtime | .[3:5] == [5, 45]", "{}"));
}

/// The argument of a process that runs one test alone; no other test name contains it.
const ALONE_ARGUMENT: &str = "alone";

fn is_alone() -> bool {
    std::env::args().any(|argument| argument == ALONE_ARGUMENT)
}

fn test_binary_command() -> std::process::Command {
    std::process::Command::new(std::env::current_exe().unwrap())
}

fn assert_passes_alone(mut program: std::process::Command, test: &str) {
    let ended =
        program.args([&format!("filter::tests::{test}"), ALONE_ARGUMENT, "--exact"]).output().unwrap();
    let stdout = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && stdout.contains("1 passed"), "{stdout}");
}
