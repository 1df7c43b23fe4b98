//! Source edits that plant bugs. Each is in a function, and has no effect while its bug is inactive.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::faults::bugs::{BUGS, Bug};
use crate::faults::functions::{Crate, SourceFunction};
use crate::faults::tokens::{MatchFailure, find_unique_match};
use crate::tools::TaskFailure;

/// The placeholder in bugs.toml for the expression that is true if the bug is active.
const IS_ACTIVE: &str = "$bug";
/// The placeholder in bugs.toml for the replaced code.
const REPLACED: &str = "$it";
/// The crate that contains the switch.
const CORE: &str = "core";

/// A file with bugs.
pub(super) struct PlantedFile {
    /// The path relative to the workspace's root.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// Plants all bugs in the crates below this source folder, and returns the files that change.
///
/// # Errors
/// A function or code that a bug changes was not found exactly once: the error has one line per bug.
pub(super) fn plant_bugs(sources: &Path, bugs: &[Bug]) -> Result<Vec<PlantedFile>, TaskFailure> {
    let (mut planted, mut failures) = (Vec::new(), Vec::new());
    for name in bugs.iter().map(|bug| &bug.package).collect::<BTreeSet<_>>() {
        let parsed = Crate::read_sources(&sources.join("crates").join(name))?;
        let bugs: Vec<_> = bugs.iter().filter(|bug| bug.package == *name).collect();
        match plant_in_crate(&parsed, &bugs) {
            Ok(files) => planted.extend(files),
            Err(in_crate) => failures.extend(in_crate),
        }
    }
    if failures.is_empty() { Ok(planted) } else { Err(TaskFailure(failures.join("\n"))) }
}

fn plant_in_crate(parsed: &Crate, bugs: &[&Bug]) -> Result<Vec<PlantedFile>, Vec<String>> {
    let mut failures = Vec::new();
    let mut by_function: BTreeMap<&str, (&SourceFunction, Vec<&Bug>)> = BTreeMap::new();
    for bug in bugs {
        match parsed.find_function(&bug.function) {
            Ok(function) => {
                by_function.entry(&function.path).or_insert_with(|| (function, Vec::new())).1.push(bug);
            }
            Err(why) => failures.push(describe_problem(bug, &why)),
        }
    }
    let mut by_file: BTreeMap<usize, Vec<SourceEdit>> = BTreeMap::new();
    for (function, bugs) in by_function.values() {
        by_file.entry(function.file).or_default().extend(function_edits(
            parsed,
            function,
            bugs,
            &mut failures,
        ));
    }
    let mut planted = Vec::new();
    for (file, edits) in by_file {
        let file = &parsed.files[file];
        match apply_edits(&file.text, edits) {
            Ok(text) => {
                let path = Path::new("crates").join(&parsed.name).join(&file.path);
                planted.push(PlantedFile { path, text });
            }
            Err(why) => failures.push(why),
        }
    }
    if failures.is_empty() { Ok(planted) } else { Err(failures) }
}

/// A replacement in a file.
#[derive(Debug)]
struct SourceEdit {
    /// The name of the bug, for error messages.
    bug: String,
    range: Range<usize>,
    /// The new text, in which `$it` stands for the replaced text with the edits inside it.
    template: String,
}

/// Returns the edits for all bugs in a function together, so that they compose.
fn function_edits(
    parsed: &Crate,
    function: &SourceFunction,
    bugs: &[&Bug],
    failures: &mut Vec<String>,
) -> Vec<SourceEdit> {
    let names = bugs.iter().map(|bug| bug.name.as_str()).collect::<Vec<_>>().join(", ");
    let edit = |range, template| SourceEdit { bug: names.clone(), range, template };
    // The switch cannot be evaluated at compile time.
    let mut edits = Vec::from_iter(function.constness.clone().map(|range| edit(range, String::new())));
    let first = bugs.iter().map(|bug| first_statements(parsed, function, bug, failures)).collect();
    edits.push(edit(function.body.start..function.body.start, first));
    let results =
        bugs.iter().filter_map(|bug| Some((is_active_expression(parsed, bug), bug.result.as_deref()?)));
    let results: Vec<_> = results.collect();
    if !results.is_empty() {
        edits.push(edit(function.body.clone(), wrap_with_results(function, &results)));
    }
    for bug in bugs {
        let Some((before, after)) = bug.before.as_deref().zip(bug.after.as_deref()) else { continue };
        match find_code(parsed, function, before) {
            Ok(range) => {
                let template = render_choice(&is_active_expression(parsed, bug), before, after);
                edits.push(SourceEdit { bug: bug.name.clone(), range, template });
            }
            Err(why) => failures.push(describe_problem(bug, &why)),
        }
    }
    edits
}

/// Returns a bug's statements that precede the body: first the changed arguments, then `first`.
fn first_statements(
    parsed: &Crate,
    function: &SourceFunction,
    bug: &Bug,
    failures: &mut Vec<String>,
) -> String {
    let is_active = is_active_expression(parsed, bug);
    let mut statements = String::from("\n");
    for (name, value) in &bug.argument {
        if !function.parameters.contains(name) {
            let (place, parameters) = (parsed.format_location(function), function.parameters.join(", "));
            let why = format!("`{}` ({place}) has no parameter `{name}`, but: {parameters}", function.path);
            failures.push(describe_problem(bug, &why));
        }
        statements += &format!("let mut {name} = if {is_active} {{ {value} }} else {{ {name} }};\n");
    }
    if let Some(first) = &bug.first {
        // The declarations must be visible in the rest of the bug.
        let is_visible = bug.result.is_some() || bug.before.is_some();
        statements += &match first.contains(IS_ACTIVE) || is_visible {
            true => first.replace(IS_ACTIVE, &is_active),
            false => format!("if {is_active} {{ {first} }}"),
        };
        statements.push('\n');
    }
    statements
}

/// Wraps the body in a closure or an async block, so that `return` and `?` leave only that, and appends the bugs that
/// change the result.
fn wrap_with_results(function: &SourceFunction, results: &[(String, &str)]) -> String {
    let annotation = |sign: &str| {
        function.returns.as_ref().map_or_else(String::new, |returned| format!("{sign} {returned}"))
    };
    let mut body = match function.is_async {
        true => format!("let mut result{} = async {{ {REPLACED} }}.await;\n", annotation(":")),
        false => format!("let mut result = (|| {} {{ {REPLACED} }})();\n", annotation("->")),
    };
    for (is_active, result) in results {
        body += &format!("let mut result = if {is_active} {{ {result} }} else {{ result }};\n");
    }
    body + "result\n"
}

/// Renders a choice between the original code and the bug, or only the bug's text if it contains the check itself, as
/// in a guard.
fn render_choice(is_active: &str, before: &str, after: &str) -> String {
    if after.contains(IS_ACTIVE) {
        return after.replace(IS_ACTIVE, is_active);
    }
    let choice = format!("if {is_active} {{ {after} }} else {{ {REPLACED} }}");
    // A statement is used as is; an expression might have operators around it.
    if before.trim_end().ends_with(';') { choice } else { format!("({choice})") }
}

fn is_active_expression(parsed: &Crate, bug: &Bug) -> String {
    let core = if parsed.name == CORE { "crate" } else { "redeliver_core" };
    format!("{core}::planted::is({:?})", bug.name)
}

fn describe_problem(bug: &Bug, why: &str) -> String {
    format!("{BUGS}: {}: {why}", bug.name)
}

/// Finds the only occurrence of this code in a function.
fn find_code(parsed: &Crate, function: &SourceFunction, wanted: &str) -> Result<Range<usize>, String> {
    let text = &parsed.files[function.file].text;
    let start = function.body.start;
    let line = |place: &Range<usize>| text[..start + place.start].lines().count();
    let why = match find_unique_match(&text[function.body.clone()], wanted) {
        Ok(place) => return Ok(start + place.start..start + place.end),
        Err(MatchFailure::NotTokens) => {
            return Err("`before` must consist of complete tokens with closed brackets".to_owned());
        }
        Err(MatchFailure::Nowhere) => {
            "does not contain the code of `before`, not even its first token".to_owned()
        }
        Err(MatchFailure::OnlyBeginning { tokens, place }) => {
            format!("contains only the beginning of `before`, in line {}: {tokens}", line(&place))
        }
        Err(MatchFailure::Repeated(places)) => {
            let lines = places.iter().map(|place| line(place).to_string()).collect::<Vec<_>>().join(", ");
            format!(
                "contains the code of `before` {} times, in lines {lines}: include more of it",
                places.len()
            )
        }
    };
    Err(format!("`{}` ({}) {why}", function.path, parsed.format_location(function)))
}

/// Applies the edits to a file. An edit can be inside the replaced text of another, or replace the same text.
fn apply_edits(text: &str, mut edits: Vec<SourceEdit>) -> Result<String, String> {
    // Insertions come first, then outer edits before inner ones.
    edits.sort_by_key(|edit| (edit.range.start, !edit.range.is_empty(), Reverse(edit.range.end)));
    apply_within(text, 0..text.len(), &edits)
}

fn apply_within(text: &str, range: Range<usize>, edits: &[SourceEdit]) -> Result<String, String> {
    let (mut changed, mut done, mut rest) = (String::new(), range.start, edits);
    while let [edit, others @ ..] = rest {
        let inside = others.iter().take_while(|other| other.range.start < edit.range.end).count();
        let (inside, behind) = others.split_at(inside);
        let is_lost =
            |inner: &&SourceEdit| inner.range.end > edit.range.end || !edit.template.contains(REPLACED);
        if let Some(lost) = inside.iter().find(is_lost) {
            return Err(format!(
                "{BUGS}: {} and {} replace overlapping code: write the code of one as `$it`, or shorten its `before`",
                edit.bug, lost.bug
            ));
        }
        let replaced = apply_within(text, edit.range.clone(), inside)?;
        changed += &text[done..edit.range.start];
        changed += &edit.template.replace(REPLACED, &replaced);
        (done, rest) = (edit.range.end, behind);
    }
    changed += &text[done..range.end];
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::bugs::{Bugs, read_bugs};
    use crate::faults::functions::SourceFile;
    use crate::tools::workspace_root;

    const SOURCE: &str = "\
impl Fault {
    pub const fn may_be_done(self, made: u32) -> bool {
        match made {
            0 if self.is_no_answer() => false,
            made => made
                < limit(made,
                        self),
        }
    }
}
async fn send(all: Vec<u8>) -> Result<(), String> {
    keep(&all).await?;
    Ok(())
}
";

    fn plant_in_source(bugs: &str) -> Result<String, String> {
        let Bugs { bug: bugs } = toml::from_str(bugs).unwrap();
        let path = PathBuf::from("src/ports.rs");
        let file = SourceFile { path, text: SOURCE.to_owned() };
        let parsed = Crate::from_files("core".to_owned(), vec![file]).unwrap();
        let files =
            plant_in_crate(&parsed, &bugs.iter().collect::<Vec<_>>()).map_err(|why| why.join("\n"))?;
        let [PlantedFile { path, text }] = &files[..] else { panic!("one file") };
        assert_eq!(path, Path::new("crates/core/src/ports.rs"));
        Ok(text.clone())
    }

    /// Returns an entry for the first function in `SOURCE`.
    fn bug(name: &str, rest: &str) -> String {
        entry(name, "Fault::may_be_done", rest)
    }

    fn entry(name: &str, function: &str, rest: &str) -> String {
        format!(
            "[[bug]]\nname = \"{name}\"\nwhat = \"\"\ncrate = \"core\"\nfunction = \"{function}\"\n{rest}\n"
        )
    }

    fn collapse_whitespace(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn first_statements_precede_the_body_and_const_is_removed() {
        let text = plant_in_source(&bug("a", "first = 'return true;'")).unwrap();
        let text = collapse_whitespace(&text);
        let begin = "impl Fault { pub fn may_be_done(self, made: u32) -> bool { ";
        let edit = "if crate::planted::is(\"a\") { return true; } match made {";
        assert!(text.starts_with(&format!("{begin}{edit}")), "{text}");
        let text = plant_in_source(&bug("a", "first = 'let made = if $bug { 0 } else { made };'")).unwrap();
        assert!(text.contains("\nlet made = if crate::planted::is(\"a\") { 0 } else { made };\n"), "{text}");
    }

    #[test]
    fn an_active_bug_replaces_the_argument() {
        let text = plant_in_source(&bug("a", "argument = { made = 'made + 1' }")).unwrap();
        let argument = "\nlet mut made = if crate::planted::is(\"a\") { made + 1 } else { made };\n";
        assert!(text.contains(argument), "{text}");
        let error = plant_in_source(&bug("a", "argument = { sent = '1' }")).unwrap_err();
        assert!(
            error.ends_with(
                "bugs.toml: a: `ports::Fault::may_be_done` (crates/core/src/ports.rs:2) has no parameter `sent`, \
                 but: made"
            ),
            "{error}"
        );
    }

    #[test]
    fn planted_results_apply_in_order_at_each_return() {
        let bugs = bug("a", "result = '!result'") + &bug("b", "result = 'true'");
        let text = collapse_whitespace(&plant_in_source(&bugs).unwrap());
        let end = "}; let mut result = if crate::planted::is(\"b\") { true } else { result }; result } }";
        assert!(text.contains("{ let mut result = (|| -> bool { match made {"), "{text}");
        assert!(
            text.contains(&format!("if crate::planted::is(\"a\") {{ !result }} else {{ result {end}")),
            "{text}"
        );
        let text = collapse_whitespace(&plant_in_source(&entry("a", "send", "result = 'Ok(())'")).unwrap());
        let body = "let mut result: Result<(), String> = async { keep(&all).await?; Ok(()) }.await;";
        assert!(text.contains(body), "{text}");
    }

    #[test]
    fn code_is_found_regardless_of_line_breaks() {
        let text =
            plant_in_source(&bug("a", "before = 'made < limit(made, self,)'\nafter = 'true'")).unwrap();
        let choice = "made => (if crate::planted::is(\"a\") { true } else { made < limit(made, self) }),";
        assert!(collapse_whitespace(&text).contains(choice), "{text}");
        let statement = "before = 'keep(&all).await?;'\nafter = ''";
        let text = plant_in_source(&entry("a", "send", statement)).unwrap();
        assert!(text.contains("if crate::planted::is(\"a\") {  } else { keep(&all).await?; }\n"), "{text}");
        let guard = "before = '0 if self.is_no_answer()'\nafter = '0 if self.is_no_answer() && !$bug'";
        let text = plant_in_source(&bug("a", guard)).unwrap();
        assert!(text.contains("0 if self.is_no_answer() && !crate::planted::is(\"a\") => false"), "{text}");
    }

    #[test]
    fn bugs_in_the_same_code_compose() {
        let bugs = bug("a", "before = 'made < limit(made, self)'\nafter = '$it && false'")
            + &bug("b", "before = 'limit(made, self)'\nafter = '0'")
            + &bug("c", "before = 'limit(made, self)'\nafter = '1'");
        let text = collapse_whitespace(&plant_in_source(&bugs).unwrap());
        let inner = "(if crate::planted::is(\"b\") { 0 } else { \
                     (if crate::planted::is(\"c\") { 1 } else { limit(made, self) }) })";
        assert!(text.contains(&format!("{{ made < {inner} && false }} else {{ made < {inner} }}")), "{text}");
        let bugs = bug("a", "before = '< limit(made, self)'\nafter = '< 1 + u32::from($bug)'")
            + &bug("b", "before = 'limit(made, self)'\nafter = '1'");
        let error = plant_in_source(&bugs).unwrap_err();
        assert!(error.contains("bugs.toml: a and b replace overlapping code"), "{error}");
    }

    #[test]
    fn missing_or_repeated_code_is_reported_with_its_function_and_lines() {
        let place = "bugs.toml: a: `ports::Fault::may_be_done` (crates/core/src/ports.rs:2)";
        for (before, why) in [
            ("made", "contains the code of `before` 4 times, in lines 3, 5, 5, 6: include more of it"),
            (
                "made < limit(made, 1)",
                "contains only the beginning of `before`, in line 5: made < limit ( made ,",
            ),
            ("sent", "does not contain the code of `before`, not even its first token"),
        ] {
            let error = plant_in_source(&bug("a", &format!("before = '{before}'\nafter = ''"))).unwrap_err();
            assert!(error.ends_with(&format!("{place} {why}")), "{error}");
        }
        let error = plant_in_source(&bug("a", "before = 'limit('\nafter = ''")).unwrap_err();
        assert!(
            error.ends_with("a: `before` must consist of complete tokens with closed brackets"),
            "{error}"
        );
    }

    /// Building the simulator takes minutes. This test takes seconds to report the entries that a rename has broken.
    #[test]
    fn every_entry_finds_its_function_and_its_code() {
        let bugs = read_bugs(workspace_root()).unwrap_or_else(|TaskFailure(why)| panic!("{why}"));
        let planted = plant_bugs(workspace_root(), &bugs).unwrap_or_else(|TaskFailure(why)| panic!("{why}"));
        assert!(planted.iter().all(|file| syn::parse_file(&file.text).is_ok()));
    }
}
