use super::*;

fn matches(filter: &str, document: &str) -> bool {
    Filter::new(filter).unwrap().matches("m", document).unwrap() == Choice::Picked
}

/// Why it is not judged.
fn not_judged(filter: &str, document: &str) -> String {
    match Filter::new(filter).unwrap().matches("m", document).unwrap() {
        Choice::NotJudged(why) => why,
        choice => panic!("{filter}: {choice:?}"),
    }
}

#[test]
fn a_filter_picks_by_body_attributes_and_error() {
    let document =
        r#"{"error_type":"A","attributes":{"tenant":"t1"},"body":{"data":{"cents":12345678901234567890}}}"#;
    assert!(matches(r#".error_type == "A" and .attributes.tenant == "t1""#, document));
    assert!(matches(".body.data.cents > 12345678901234567000", document));
    assert!(!matches(r#".attributes.tenant == "t2""#, document));
    assert!(!matches(".body.data.missing", document), "null");
    assert!(!matches("empty", document));
}

#[test]
fn a_wrong_filter_is_refused_with_its_place() {
    for (filter, offset, reason) in [
        (".error_type ==", 14, "expected term"),
        (".body | lenght", 8, "there is no filter of this name with this number of arguments"),
        (".a | $undefined", 5, "there is no variable of this name with this number of arguments"),
        (".a[", 3, "expected closing bracket"),
    ] {
        let FilterError::Compile { wrong, .. } = Filter::new(filter).unwrap_err() else { panic!("{filter}") };
        assert_eq!((wrong.offset, wrong.reason.as_str()), (offset, reason), "{filter}");
    }
}

#[test]
fn a_filter_cannot_reach_out_of_the_message() {
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
fn why_a_filter_fails_on_a_message_or_takes_too_long_is_told() {
    assert_eq!(not_judged(".a + {}", r#"{"a":1}"#), "cannot calculate with two values");
    assert_eq!(not_judged("def f: f; f", "{}"), "the filter takes longer than 1 s on it");
}

#[test]
fn what_is_told_of_a_failure_holds_no_value_of_the_message() {
    let document = r#"{"a":"CANARY as object","n":4242,"o":{"CANARY":"CANARY"},"l":["CANARY"]}"#;
    let own = "it raises an error, whose text may quote the message";
    for (filter, reason) in [
        (".a + 1", "cannot calculate with two values"),
        (".o - .l", "cannot calculate with two values"),
        (".a.b", "cannot index a value with another"),
        (".a | keys", "cannot use a value as iterable (array or object)"),
        (".l | implode", "cannot use a value as integer"),
        ("(.a | ascii_downcase) |= 1", "invalid path expression"),
        (".a | tojson | .[1:] | fromjson", own),
        (".a | tonumber", own),
        (".a | fromdateiso8601", own),
        (".a | test(\"(\")", own),
        (".a | @base64d", own),
        (".o | error", own),
        ("error(.a)", own),
        ("error(\"cannot use \" + .a)", own),
    ] {
        assert_eq!(not_judged(filter, document), reason, "{filter}");
    }
}

#[test]
fn an_edit_has_exactly_one_output_with_its_numbers_as_they_were() {
    let edit = |filter: &str, document: &str| Filter::new(filter).unwrap().edit("m", document).unwrap();
    let edited =
        edit(".body.data.fixed = true", r#"{"body":{"data":{"n":1.10,"big":123456789012345678901}}}"#);
    assert_eq!(edited.unwrap(), r#"{"body":{"data":{"n":1.10,"big":123456789012345678901,"fixed":true}}}"#);
    assert_eq!(edit("empty", "{}").unwrap_err(), "it has no output; one is needed");
    assert_eq!(edit("., .", "{}").unwrap_err(), "it has several outputs; one is needed");
}

#[test]
fn a_filter_that_answers_neither_yes_nor_no_picks_nothing_and_is_refused() {
    let document = r#"{"error_type":"CANARY","n":4242,"o":{"CANARY":1},"l":["CANARY"]}"#;
    let assigned = "a single `=` changes the message: compare with `==`";
    let bare = "compare it with `==`, or with `!= null` if it only has to be there";
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
        let refused = Filter::new(filter).unwrap().matches("m", document).unwrap_err();
        let text = refused.to_string();
        let wanted = "where true or false is wanted";
        assert_eq!(text, format!("the filter `{filter}` gives {given} on message m, {wanted}; {hint}"));
        assert!(!text.replace(filter, "").contains("CANARY") && !text.contains("4242"), "{text}");
    }
}

#[test]
fn a_comparison_with_numbers_leaves_out_messages_that_have_none() {
    let small = ".body.data?.cents? | numbers < 1000";
    for (body, is_picked) in [
        (r#"{"data":{"cents":999}}"#, true),
        (r#"{"data":{"cents":1000}}"#, false),
        (r#"{"data":{"cents":"999"}}"#, false),
        (r#"{"data":{}}"#, false),
        (r#""text""#, false),
    ] {
        assert_eq!(matches(small, &format!(r#"{{"body":{body}}}"#)), is_picked, "{body}");
    }
    assert!(
        matches(".body.data.cents < 1000", r#"{"body":{"data":{}}}"#),
        "jq takes null for less than any number"
    );
}

#[test]
fn messages_that_are_picked_only_because_a_member_is_absent_are_counted() {
    let absent_in = |filter: &str, documents: &[&str]| {
        let filter = Filter::new(filter).unwrap();
        for document in documents {
            filter.matches("m", document).unwrap();
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
    assert_eq!(absent_in(".body.data.cents < 1000", &documents), two);
    assert_eq!(absent_in("1000 >= .body.data?.cents", &documents), two);
    assert_eq!(absent_in(r#".body["data"].cents <= 1000 and (.body.x | not)"#, &documents), two);
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
        assert_eq!(absent_in(silent, &documents), None, "{silent}");
    }
    assert_eq!(absent_in(".body.data.cents != 1", &documents), two);
    assert_eq!(absent_in("1 != .body.data.cents", &documents), two);
    assert_eq!(absent_in(".attempts < 3", &[r#"{"attempts":null}"#]), Some((1, ".attempts".to_owned())));
}

#[test]
fn what_to_write_instead_leaves_out_what_is_absent_and_can_be_pasted_in_place() {
    let whole = r#"{"error_type":"NON","body":{"data":{"cents":999,"kind":"b","the day":"2026-01-01","limit":1000}}}"#;
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
        let picking = Filter::new(&filter(written)).unwrap();
        assert_eq!(picking.matches("m", absent).unwrap(), Choice::Picked, "{written}");
        assert_eq!(picking.missing_members().unwrap().instead, [instead]);
        if !instead.contains('…') {
            assert!(matches(&filter(instead), whole) && !matches(&filter(instead), absent), "{instead}");
        }
    }
    let either = Filter::new(r#".body.data.cents < 3 or .error_type == "NON""#).unwrap();
    either.matches("m", absent).unwrap();
    let instead = "(.body.data.cents != null and .body.data.cents < 3)";
    assert_eq!(either.missing_members().unwrap().instead, [instead]);
    assert!(
        matches(&format!(r#"{instead} or .error_type == "NON""#), absent),
        "the other side counts all the same"
    );
}

#[test]
fn a_member_that_no_dead_letter_has_is_refused_with_what_was_meant() {
    let of_dead_letters =
        |filter: &str| Filter::of_dead_letters(filter).map(drop).map_err(|error| error.to_string());
    let meant = "did you mean `.error_type`?";
    assert_eq!(
        of_dead_letters(r#".erorr_type != "X""#).unwrap_err(),
        "the filter `.erorr_type != \"X\"` is wrong at byte 1 (`erorr_type != \"X\"`): there is no `.erorr_type`; \
         did you mean `.error_type`?"
    );
    for (filter, meant) in [
        (r#".attempts > 1 and (.erorr_type | test("X"))"#, meant),
        (r#".["ErrorType"] == "X""#, meant),
        (r#"select(.errortype == "X")"#, meant),
        (r#"if .error_typ == "X" then true else false end"#, meant),
        (r#"if .attempts == 1 then true else .error_typ == "X" end"#, meant),
        (r#"if .attempts == 1 then .error_typ == "X" else true end"#, meant),
        (".body.data.kind = .error_tpye", meant),
        (".data.cents < 3", "did you mean `.body.data`?"),
        (
            ".tenant",
            "a dead letter has .message_id, .sent_at, .error_type, .error_details, .attempts, .fingerprint, .attributes, .body",
        ),
    ] {
        let refused = of_dead_letters(filter).unwrap_err();
        assert!(refused.ends_with(meant), "{refused}");
    }
    for right in [
        r#".body | .erorr_type != "X""#,
        ".body.data.anything and .attributes.tenant",
        "[.body.data.lines[] | .anything] | any",
        r#".mine = 1 | .body.data.kind = "a""#,
        "def f: .anything; .body | f",
    ] {
        assert_eq!(of_dead_letters(right), Ok(()), "{right}");
    }
}

#[test]
fn a_filter_that_is_nested_or_long_beyond_reason_is_refused_and_overflows_no_stack() {
    let reason = |filter: &str| match Filter::of_dead_letters(filter) {
        Err(FilterError::Compile { text, wrong }) => {
            assert!(text.len() < 100, "it is not printed whole: {text}");
            wrong.reason
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
    assert_eq!(reason(&"[".repeat(20_000)), "it has 20000 bytes, and 16384 are the most");
}

/// Nesting without brackets, too, ends only the process that parses it.
#[test]
fn whatever_a_filter_does_it_does_to_its_own_process() {
    let gives_a_number = "gives a number on message m, where true or false is wanted";
    for (text, end) in [
        ("-".repeat(16_000) + "1", gives_a_number),
        ("if 1 then ".repeat(1100) + "1" + &" end".repeat(1100), gives_a_number),
        ("try ".repeat(4000) + "1", gives_a_number),
        ("def f: ".repeat(1600) + "1" + &"; 1".repeat(1600), gives_a_number),
        ("1 | ".repeat(4000) + "1", gives_a_number),
        ("1 as $x | ".repeat(1600) + "1", gives_a_number),
        ("reduce 1 as $x (0; ".repeat(190) + "1" + &")".repeat(190), gives_a_number),
        (
            "def f: 1 + f; f".to_owned(),
            "the filter takes more than 1024 MiB of memory, or recurses too deep on it",
        ),
        ("def f: f; f".to_owned(), "the filter takes longer than 1 s on it"),
    ] {
        let ended = match Filter::of_dead_letters(&text).and_then(|filter| filter.matches("m", "{}")) {
            Ok(Choice::NotJudged(why)) => why,
            Err(error) => error.to_string(),
            choice => panic!("{text:.20}: {choice:?}"),
        };
        assert!(ended.contains(end), "{text:.20}: {ended}");
        assert!(matches("true", "{}"), "{text:.20}");
    }
}

#[test]
fn what_a_filter_collects_is_bounded_and_the_next_message_is_judged() {
    let big = Filter::new(r#"if .big then [range(1e12)] | length > 0 else true end"#).unwrap();
    let choice = |document: &str| big.matches("m", document).unwrap();
    // On a fast machine its memory ends first, on a slow one its time.
    let Choice::NotJudged(why) = choice(r#"{"big":true}"#) else { panic!("it was judged") };
    assert!(
        why.starts_with("the filter takes more than 1024 MiB") || why.starts_with("the filter takes longer"),
        "{why}"
    );
    assert_eq!(choice("{}"), Choice::Picked);
    let deep = Filter::new("def f: 1 + f; if .deep then f > 0 else true end").unwrap();
    assert!(matches!(deep.matches("m", r#"{"deep":true}"#), Ok(Choice::NotJudged(_))));
    assert_eq!(deep.matches("m", "{}"), Ok(Choice::Picked));
}

#[test]
#[cfg(target_os = "linux")]
fn a_filter_whose_time_is_up_is_gone_and_not_only_forgotten() {
    let endless = Filter::new("def f: f; if .endless then f else true end").unwrap();
    let before = endless.process.borrow().id();
    let is_there = |id: u32| std::path::Path::new(&format!("/proc/{id}")).exists();
    assert!(is_there(before));
    assert!(matches!(endless.matches("m", r#"{"endless":true}"#), Ok(Choice::NotJudged(_))));
    assert!(!is_there(before), "killed, and reaped");
    let after = endless.process.borrow().id();
    drop(endless);
    assert!(!is_there(after), "and so is what ends in peace");
}

#[test]
fn thousands_of_messages_are_judged_by_one_process() {
    let filter = Filter::new(".n > 5").unwrap();
    let process = filter.process.borrow().id();
    let picked = (0..5000).filter(|n| filter.matches("m", &format!(r#"{{"n":{n}}}"#)) == Ok(Choice::Picked));
    assert_eq!(picked.count(), 4994);
    assert_eq!(filter.process.borrow().id(), process);
}

/// Four messages of a stranger among many would end a redrive otherwise.
#[test]
fn only_four_messages_in_a_row_that_kill_the_filter_end_the_run() {
    let crash = Filter::new("def f: 1 + f; if .deep then f > 0 else true end").unwrap();
    let choice = |document: &str| crash.matches("m", document);
    for _ in 0..5 {
        assert!(matches!(choice(r#"{"deep":true}"#), Ok(Choice::NotJudged(_))));
        assert_eq!(choice("{}"), Ok(Choice::Picked));
    }
    for _ in 0..3 {
        assert!(matches!(choice(r#"{"deep":true}"#), Ok(Choice::NotJudged(_))));
    }
    assert!(matches!(choice(r#"{"deep":true}"#), Err(FilterError::Endless { .. })));
}

#[test]
fn an_output_larger_than_any_message_is_not_taken() {
    let large = Filter::new(r#""x" * 10000000"#).unwrap().edit("m", "{}").unwrap();
    assert_eq!(large, Err("its output has more than 8 MiB".to_owned()));
}

/// Environment, input and modules are not there for a filter; nor are they in its process. Local times need `TZ`.
#[test]
#[cfg(target_os = "linux")]
fn the_process_of_a_filter_has_no_environment_and_its_limits() {
    let filter = Filter::new("true").unwrap();
    let of = |name: &str| {
        std::fs::read_to_string(format!("/proc/{}/{name}", filter.process.borrow().id())).unwrap()
    };
    let environment = of("environ");
    assert!(environment.split_terminator('\0').all(|variable| variable.starts_with("TZ=")), "{environment}");
    let limits = of("limits");
    let line = |name: &str| limits.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let memory = line("Max address space");
    assert!(memory.contains("1073741824           1073741824"), "{memory}");
    let core = line("Max core file size");
    assert!(core.contains("0                    0"), "{core}");
}

/// Otherwise one such message would take a second, and five of them would end the run.
#[test]
fn a_panic_of_jaq_leaves_one_message_not_judged_and_ends_no_run() {
    let filter = Filter::new(r#"if .far then 9223372036854775807 | strftime("%c") else true end"#).unwrap();
    let process = filter.process.borrow().id();
    for _ in 0..2 * ENDED_MAX {
        let far = filter.matches("m", r#"{"far":true}"#);
        assert_eq!(far, Ok(Choice::NotJudged("the filter fails on it".to_owned())));
    }
    assert_eq!(filter.matches("m", "{}"), Ok(Choice::Picked));
    assert_eq!(filter.process.borrow().id(), process);
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_goes_on_though_the_program_is_removed_or_upgraded() {
    if !is_alone() {
        let this = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(this.parent().unwrap()).unwrap();
        let link = folder.path().join("redeliver");
        std::fs::hard_link(this, &link).unwrap();
        return passes_alone(
            std::process::Command::new(link),
            "a_run_goes_on_though_the_program_is_removed_or_upgraded",
        );
    }
    let crash = Filter::new("def f: 1 + f; if .deep then f > 0 else true end").unwrap();
    std::fs::remove_file(std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(crash.matches("m", r#"{"deep":true}"#), Ok(Choice::NotJudged(_))));
    assert_eq!(crash.matches("m", "{}"), Ok(Choice::Picked));
}

#[test]
#[cfg(target_os = "linux")]
fn a_filter_that_lacks_the_memory_to_start_is_not_told_to_be_wrong() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    if !is_alone() {
        return passes_alone(
            this_program(),
            "a_filter_that_lacks_the_memory_to_start_is_not_told_to_be_wrong",
        );
    }
    let little = Some(250 << 20);
    setrlimit(Resource::As, Rlimit { current: little, maximum: little }).unwrap();
    assert_eq!(
        Filter::new("true").unwrap_err().to_string(),
        "the filter `true` cannot be run: its process ended with exit status: 1"
    );
}

#[test]
fn local_times_are_those_of_the_time_zone_that_the_user_has_set() {
    if !is_alone() {
        let mut command = this_program();
        command.env("TZ", "XYZ-5:45");
        return passes_alone(command, "local_times_are_those_of_the_time_zone_that_the_user_has_set");
    }
    assert!(matches(r#"0 | strflocaltime("%H:%M") == "05:45""#, "{}"));
    assert!(matches("0 | localtime | .[3:5] == [5, 45]", "{}"));
}

/// The argument of a program that runs one test alone. It is the name of no other test.
const ALONE: &str = "alone";

fn is_alone() -> bool {
    std::env::args().any(|argument| argument == ALONE)
}

fn this_program() -> std::process::Command {
    std::process::Command::new(std::env::current_exe().unwrap())
}

fn passes_alone(mut program: std::process::Command, test: &str) {
    let ended = program.args([&format!("filter::tests::{test}"), ALONE, "--exact"]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}
