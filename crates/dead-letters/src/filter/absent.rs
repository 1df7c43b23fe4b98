//! jq takes `null`, and so a member that is not there, for less than anything: `.body.data.cents < 1000` picks messages
//! that have no `cents`. Nobody means that, so whoever filters learns how many.

use std::cell::Cell;
use std::collections::BTreeMap;

use jaq_core::load;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::ops::Cmp;
use jaq_core::path::Part;

use super::{Filter, FilterError};

/// Messages that were picked although they have not all the members that the filter compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent<'a> {
    /// How many; at least one.
    pub messages: u64,
    /// The members as they are written in the filter, for people; at least one.
    pub members: &'a [String],
}

/// Members that a filter compares, and how many of the picked messages have not all of them.
#[derive(Debug)]
pub(super) struct Watch {
    /// As they are written, for people.
    members: Vec<String>,
    is_absent: Box<Filter>,
    messages: Cell<u64>,
}

impl Watch {
    /// Of a filter that compares such members.
    pub(super) fn of(filter: &str) -> Option<Self> {
        let mut paths = BTreeMap::new();
        compared(&load::parse(filter, |parser| parser.term())?, &mut paths);
        if paths.is_empty() {
            return None;
        }
        let all = paths.values().map(|path| format!("({path})?")).collect::<Vec<_>>().join(", ");
        let is_absent = Filter::plain(&format!("[{all}] | any(. == null)")).ok()?;
        Some(Self {
            members: paths.into_keys().collect(),
            is_absent: Box::new(is_absent),
            messages: Cell::new(0),
        })
    }

    /// Looks at a message that the filter has picked.
    pub(super) fn note(&self, message_id: &str, document: String) -> Result<(), FilterError> {
        let is_absent = self.is_absent.matches(message_id, document)?;
        self.messages.set(self.messages.get() + u64::from(is_absent));
        Ok(())
    }

    pub(super) fn absent(&self) -> Option<Absent<'_>> {
        let messages = self.messages.get();
        (messages > 0).then_some(Absent { messages, members: &self.members })
    }
}

/// What comes out as `true` because a member of the whole message is not there; by what people read, the path for jq.
fn compared(term: &Term<&str>, found: &mut BTreeMap<String, String>) {
    let Term::BinOp(left, operator, right) = term else {
        return;
    };
    match operator {
        // Only the smaller side: `null < 3` is true, `null > 3` is not.
        BinaryOp::Cmp(Cmp::Lt | Cmp::Le) => found.extend(member(left)),
        BinaryOp::Cmp(Cmp::Gt | Cmp::Ge) => found.extend(member(right)),
        BinaryOp::And | BinaryOp::Or => {
            compared(left, found);
            compared(right, found);
        }
        // What follows works on something else than the message.
        BinaryOp::Pipe(_) => compared(left, found),
        _ => {}
    }
}

/// `.a.b`, and the same for jq whatever the names are.
fn member(term: &Term<&str>) -> Option<(String, String)> {
    let Term::Path(start, path) = term else {
        return None;
    };
    let Term::Id = **start else {
        return None;
    };
    let mut names = (String::new(), ".".to_owned());
    for (part, _) in &path.0 {
        let Part::Index(Term::Str(None, name)) = part else {
            return None;
        };
        let [StrPart::Str(name)] = name.as_slice() else {
            return None;
        };
        names.0 += &format!(".{name}");
        names.1 += &format!("[{}]", serde_json::Value::from(*name));
    }
    Some(names)
}
