//! Detects misspelled members: jq reads an unknown member as `null`, so `.erorr_type != "X"` would pick every message.

use jaq_core::load;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::path::Part;

use super::{FilterSyntaxError, string_literal};
use crate::record::MEMBERS;

/// Members of the body that are easily mistaken for members of the dead letter.
const BODY_MEMBERS: [(&str, &str); 2] = [("data", ".body.data"), ("metadata", ".body.metadata")];

/// The maximum edit distance of a suggestion; beyond it, the name is a different word.
const DISTANCE_MAX: usize = 2;

/// Rejects a filter that reads a member that dead letters do not have.
pub(super) fn check_members(filter: &str) -> Result<(), FilterSyntaxError> {
    let Some(term) = load::parse(filter, |parser| parser.term()) else {
        return Ok(()); // compiling reports the error
    };
    let Some(name) = find_unknown_member(&term) else {
        return Ok(());
    };
    let offset = load::span(filter, name).start;
    let reason = format!("there is no `.{name}`; {}", suggest_member(name));
    let rest = filter[offset..].chars().take(20).collect();
    Err(FilterSyntaxError { offset, rest, reason })
}

fn suggest_member(name: &str) -> String {
    if let Some((_, path)) = BODY_MEMBERS.into_iter().find(|(body_member, _)| *body_member == name) {
        return format!("did you mean `{path}`?");
    }
    let distance = |member: &str| strsim::osa_distance(&name.to_ascii_lowercase(), member);
    match MEMBERS
        .into_iter()
        .min_by_key(|member| distance(member))
        .filter(|member| distance(member) <= DISTANCE_MAX)
    {
        Some(member) => format!("did you mean `.{member}`?"),
        None => format!("a dead letter has .{}", MEMBERS.join(", .")),
    }
}

/// Returns the first unknown member. Only parts whose input is certain to be the complete message are checked.
fn find_unknown_member<'s>(term: &Term<&'s str>) -> Option<&'s str> {
    match term {
        Term::Path(start, path) => match (&**start, path.0.first()) {
            (Term::Id, Some((Part::Index(index), _))) => {
                string_literal(index).filter(|name| !MEMBERS.contains(name))
            }
            (Term::Id, _) => None,
            (start, _) => find_unknown_member(start),
        },
        // The right side has a different input, except after `… as $x | …`.
        Term::BinOp(left, BinaryOp::Pipe(None), _) => find_unknown_member(left),
        // An assignment may create a member.
        Term::BinOp(_, BinaryOp::Assign | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt, right) => {
            find_unknown_member(right)
        }
        Term::BinOp(_, BinaryOp::Update, _) => None,
        Term::BinOp(left, _, right) => find_unknown_member(left).or_else(|| find_unknown_member(right)),
        Term::Neg(inner) | Term::Label(_, inner) => find_unknown_member(inner),
        Term::TryCatch(tried, _) => find_unknown_member(tried),
        Term::IfThenElse(cases, otherwise) => cases
            .iter()
            .find_map(|(condition, then)| {
                find_unknown_member(condition).or_else(|| find_unknown_member(then))
            })
            .or_else(|| otherwise.as_deref().and_then(find_unknown_member)),
        Term::Call("select", arguments) => arguments.iter().find_map(find_unknown_member),
        _ => None,
    }
}
