//! The output of a `--where` filter: yes, no, or something that is not an answer.

/// True if the output picks a message; an error names the kind of any other output.
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

/// A suggestion for a filter whose output is neither yes nor no.
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
        "compare it with `==`, or with `!= null` if it only has to be there"
    }
}
