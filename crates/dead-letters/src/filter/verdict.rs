//! Interprets the output of a `--where` filter: true, false, or an unsupported value.

/// Returns true if the output picks the message; the error is the type of an unsupported output.
pub(super) fn parse_verdict(output: Option<&str>) -> Result<bool, &'static str> {
    match output {
        Some("true") => Ok(true),
        None | Some("false" | "null") => Ok(false),
        Some(other) => Err(match other.as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'"' | b'b') => "a string",
            _ => "a number",
        }),
    }
}

/// Suggests a fix for a filter whose output is neither true nor false.
pub(super) fn suggest_fix(filter: &str) -> &'static str {
    let is_assignment = |(at, _): (usize, &str)| {
        let before = filter[..at].chars().next_back();
        !filter[at + 1..].starts_with('=') && !before.is_some_and(|before| "=!<>".contains(before))
    };
    if filter.contains("select(") {
        "the condition alone is enough: leave out `select(` and its `)`"
    } else if filter.match_indices('=').any(is_assignment) {
        "a single `=` changes the message: compare with `==`"
    } else {
        "compare it with `==`, or with `!= null` if it only has to exist"
    }
}
