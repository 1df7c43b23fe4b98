//! What the validator finds, in our words.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use crate::meter::{Ended, Meter};
use crate::metered::{Metered, NOT_READ, Reading};
use crate::{Violation, pointer_to};

/// More would only be cut off; and a hostile message can break a rule half a million times.
const VIOLATIONS_MAX: usize = 100;
/// The same of their text, in bytes: a place can be as long as a message. The one that goes beyond it is the last.
const TEXT_MAX: usize = 65_536;
/// The rule that a hostile message breaks.
const TAKES_TOO_LONG: &str =
    "takes too long to check: it has too much of what the schema looks at again and again";

/// What `instance` breaks of a schema, the first hundred rules; `at` is the instance's own pointer.
pub(super) fn violations(
    validator: &Validator<Metered>,
    instance: &Value,
    meter: &Rc<Meter>,
    at: &str,
) -> Vec<Violation> {
    let reading = Reading { value: instance, meter: Some(meter), place: 0 };
    let Some(errors) = meter.during(|| unless_ended(|| validator.iter_errors(reading))) else {
        return vec![Violation::new(at, TAKES_TOO_LONG)];
    };
    let errors = errors.filter(|error| !std::ptr::eq(error.instance().as_ref(), &raw const NOT_READ));
    let mut found = Found::default();
    for error in errors {
        if found.is_full() {
            break;
        }
        found.describe(&error, at);
    }
    let Found { violations: found, .. } = found;
    let is_unknown = found.is_empty() || !meter.marks_what_is_not_read();
    if meter.is_exhausted() && is_unknown { vec![Violation::new(at, TAKES_TOO_LONG)] } else { found }
}

/// `None` if the meter has ended the check.
fn unless_ended<T>(check: impl FnOnce() -> T) -> Option<T> {
    // The validator keeps nothing from one check for the next.
    catch_unwind(AssertUnwindSafe(check))
        .map_err(|met| if met.is::<Ended>() { met } else { resume_unwind(met) })
        .ok()
}

#[derive(Default)]
struct Found {
    violations: Vec<Violation>,
    bytes: usize,
}

impl Found {
    fn describe(&mut self, error: &ValidationError<'_>, at: &str) {
        let pointer = format!("{at}{}", error.instance_path().as_str());
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                for name in unexpected {
                    if self.is_full() {
                        return;
                    }
                    self.push(pointer_to(&pointer, name), "is not a known member".to_owned());
                }
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                self.push(pointer_to(&pointer, name), "is missing".to_owned());
            }
            // All of them: the words of `jsonschema` would name two and count the others.
            ValidationErrorKind::Enum { options } => self.push(pointer, one_of(options)),
            // Here the value is the name of a member: it has a place in the pointer, as the others' names.
            ValidationErrorKind::PropertyNames { error } => {
                let name = error.instance().as_str().unwrap_or_default();
                let rule = without_value(&error.masked_with("").to_string());
                self.push(pointer_to(&pointer, name), format!("has a name that {rule}"));
            }
            _ => self.push(pointer, without_value(&error.masked_with("").to_string())),
        }
    }

    fn push(&mut self, pointer: String, rule: String) {
        self.bytes += pointer.len() + rule.len();
        self.violations.push(Violation { pointer, rule });
    }

    fn is_full(&self) -> bool {
        self.violations.len() == VIOLATIONS_MAX || self.bytes > TEXT_MAX
    }
}

/// More would hide what else is wrong.
const OPTIONS_MAX: usize = 20;

/// The schema's own values, which are no message's.
fn one_of(options: &Value) -> String {
    let options: Vec<_> = options.as_array().into_iter().flatten().map(ToString::to_string).collect();
    match options.as_slice() {
        [one] => format!("is not one of {one}"),
        [others @ .., last] if options.len() <= OPTIONS_MAX => {
            format!("is not one of {} or {last}", others.join(", "))
        }
        all => format!(
            "is not one of {}, …",
            all.iter().take(OPTIONS_MAX).cloned().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// A masked message begins with a space where the value was, or has one inside.
fn without_value(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
