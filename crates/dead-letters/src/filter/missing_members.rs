//! Detects comparisons with missing members. jq reads a missing member as `null`, which is less than any number and
//! unequal to any value: `.body.data.cents < 1000` picks messages without `cents`. That is rarely intended, so such
//! messages are counted.

use jaq_core::load;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::ops::Cmp;
use jaq_core::path::{Opt, Part};

use super::string_literal;

/// The members that a filter compares, and the number of messages that it picks although some of these members are
/// missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingMembers {
    /// The number of messages.
    pub messages: u64,
    /// The members as written in the filter; at least one.
    pub members: Vec<String>,
    /// For each comparison, a replacement that excludes such messages; at least one.
    pub replacements: Vec<String>,
}

/// The comparisons to check in messages that a filter picks.
#[derive(Debug)]
pub(super) struct MissingMemberWatch {
    /// The comparisons, with a count of 0.
    pub(super) comparisons: MissingMembers,
    /// A filter that is true for messages that lack any of the members.
    pub(super) lacks_member: String,
}

/// A comparison that is true for a missing member.
#[derive(Debug)]
struct Comparison {
    member: ComparedMember,
    replacement: String,
}

#[derive(Clone, Debug)]
struct ComparedMember {
    /// The name that is shown to users.
    name: String,
    /// The path as the filter's author wrote it, including each `?`.
    own_path: String,
    /// The path in bracket notation, which works for any name.
    path: String,
}

impl MissingMemberWatch {
    /// Finds a filter's comparisons that are true for a missing member; returns `None` if there are none.
    pub(super) fn from_filter(filter: &str) -> Option<Self> {
        let mut compared = Vec::new();
        find_comparisons(&load::parse(filter, |parser| parser.term())?, false, &mut compared);
        if compared.is_empty() {
            return None;
        }
        let paths: Vec<_> = compared.iter().map(|found| format!("({})?", found.member.path)).collect();
        let lacks_member = format!("[{}] | any(. == null)", paths.join(", "));
        let each_once = |text: &dyn Fn(&Comparison) -> &String| {
            let mut texts: Vec<_> = compared.iter().map(|found| text(found).clone()).collect();
            texts.sort_unstable();
            texts.dedup();
            texts
        };
        let members = each_once(&|found| &found.member.name);
        let replacements = each_once(&|found| &found.replacement);
        Some(Self { comparisons: MissingMembers { messages: 0, members, replacements }, lacks_member })
    }
}

/// Finds the comparisons that are true when a member is missing.
fn find_comparisons(term: &Term<&str>, is_alternative: bool, found: &mut Vec<Comparison>) {
    let Term::BinOp(left, operator, right) = term else {
        return;
    };
    let mut compare = |small: &Term<&str>, sign: &str, large: &Term<&str>| {
        found.extend(parse_member(small).map(|member| Comparison {
            replacement: suggest_comparison(&member.own_path, sign, large, is_alternative),
            member,
        }));
    };
    match operator {
        // Only the smaller side matters: `null < 3` is true, `null > 3` is false.
        BinaryOp::Cmp(Cmp::Lt) => compare(left, "<", right),
        BinaryOp::Cmp(Cmp::Le) => compare(left, "<=", right),
        BinaryOp::Cmp(Cmp::Gt) => compare(right, "<", left),
        BinaryOp::Cmp(Cmp::Ge) => compare(right, "<=", left),
        // A comparison with `null` is intended to cover missing members.
        BinaryOp::Cmp(Cmp::Ne) if !is_null(left) && !is_null(right) => {
            compare(left, "!=", right);
            compare(right, "!=", left);
        }
        BinaryOp::And | BinaryOp::Or => {
            let is_alternative = is_alternative || matches!(operator, BinaryOp::Or);
            find_comparisons(left, is_alternative, found);
            find_comparisons(right, is_alternative, found);
        }
        // Only the left side of a pipe has the message as its input.
        BinaryOp::Pipe(_) => find_comparisons(left, is_alternative, found),
        _ => {}
    }
}

/// Returns a comparison that excludes missing members. It is in parentheses because `|` binds weakest, and `and` binds
/// more weakly than a comparison.
fn suggest_comparison(path: &str, sign: &str, other: &Term<&str>, is_alternative: bool) -> String {
    let (kind, value) = match other {
        Term::Num(number) => (Some("numbers"), (*number).to_owned()),
        other => match string_literal(other) {
            Some(text) => (Some("strings"), serde_json::Value::from(text).to_string()),
            None => (None, parse_member(other).map_or("…".to_owned(), |member| member.own_path)),
        },
    };
    match kind {
        // `| numbers` yields no output for a value that is not a number, so the other side of an `or` would be ignored.
        Some(kind) if sign != "!=" && !is_alternative => format!("({path} | {kind} {sign} {value})"),
        _ => format!("({path} != null and {path} {sign} {value})"),
    }
}

fn is_null(term: &Term<&str>) -> bool {
    matches!(term, Term::Call("null", arguments) if arguments.is_empty())
}

/// Parses a path of names, such as `.a.b`.
fn parse_member(term: &Term<&str>) -> Option<ComparedMember> {
    let Term::Path(start, path) = term else {
        return None;
    };
    let Term::Id = **start else {
        return None;
    };
    let mut found = ComparedMember { name: String::new(), own_path: String::new(), path: ".".to_owned() };
    for (part, optional) in &path.0 {
        let Part::Index(index) = part else {
            return None;
        };
        let name = string_literal(index)?;
        let quoted = serde_json::Value::from(name).to_string();
        found.name += &format!(".{name}");
        found.own_path += &if is_jq_identifier(name) { format!(".{name}") } else { format!(".{quoted}") };
        found.own_path += if matches!(optional, Opt::Optional) { "?" } else { "" };
        found.path += &format!("[{quoted}]");
    }
    Some(found)
}

/// Returns true if jq accepts the name after a dot without quotes.
fn is_jq_identifier(name: &str) -> bool {
    name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
}
