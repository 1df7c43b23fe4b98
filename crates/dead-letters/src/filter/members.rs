//! Misspelled members: jq reads a member that no dead letter has as `null`, so `.erorr_type != "X"` would pick all.

use jaq_core::load;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::path::Part;

use super::{Wrong, text_of};
use crate::record::MEMBERS;

/// Members of the body that look like members of the dead letter.
const OF_THE_BODY: [(&str, &str); 2] = [("data", ".body.data"), ("metadata", ".body.metadata")];

/// More changes than these make another word.
const SLIPS_MAX: usize = 2;

/// Refuses a filter that reads a member which no dead letter has.
pub(super) fn check(filter: &str) -> Result<(), Wrong> {
    let Some(term) = load::parse(filter, |parser| parser.term()) else {
        return Ok(()); // compiling it says what is wrong
    };
    let Some(name) = unknown(&term) else {
        return Ok(());
    };
    let offset = load::span(filter, name).start;
    let reason = format!("there is no `.{name}`; {}", meant(name));
    let rest = filter[offset..].chars().take(20).collect();
    Err(Wrong { offset, rest, reason })
}

fn meant(name: &str) -> String {
    if let Some((_, path)) = OF_THE_BODY.into_iter().find(|(of_the_body, _)| *of_the_body == name) {
        return format!("did you mean `{path}`?");
    }
    let slips = |member: &str| strsim::osa_distance(&name.to_ascii_lowercase(), member);
    match MEMBERS.into_iter().min_by_key(|member| slips(member)).filter(|member| slips(member) <= SLIPS_MAX) {
        Some(member) => format!("did you mean `.{member}`?"),
        None => format!("a dead letter has .{}", MEMBERS.join(", .")),
    }
}

/// Returns the first such name. Only parts that certainly work on the whole message are checked.
fn unknown<'s>(term: &Term<&'s str>) -> Option<&'s str> {
    match term {
        Term::Path(start, path) => match (&**start, path.0.first()) {
            (Term::Id, Some((Part::Index(index), _))) => {
                text_of(index).filter(|name| !MEMBERS.contains(name))
            }
            (Term::Id, _) => None,
            (start, _) => unknown(start),
        },
        // The rest has another input, except after `… as $x | …`.
        Term::BinOp(left, BinaryOp::Pipe(None), _) => unknown(left),
        // An assignment may create a member.
        Term::BinOp(_, BinaryOp::Assign | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt, right) => {
            unknown(right)
        }
        Term::BinOp(_, BinaryOp::Update, _) => None,
        Term::BinOp(left, _, right) => unknown(left).or_else(|| unknown(right)),
        Term::Neg(inner) | Term::Label(_, inner) => unknown(inner),
        Term::TryCatch(tried, _) => unknown(tried),
        Term::IfThenElse(cases, otherwise) => cases
            .iter()
            .find_map(|(condition, then)| unknown(condition).or_else(|| unknown(then)))
            .or_else(|| otherwise.as_deref().and_then(unknown)),
        Term::Call("select", arguments) => arguments.iter().find_map(unknown),
        _ => None,
    }
}
