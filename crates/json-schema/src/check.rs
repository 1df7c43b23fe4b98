//! Runs the validator, and turns its errors into violations.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use crate::meter::{Ended, Meter};
use crate::metered::{Metered, NOT_READ, Reading};
use crate::{Violation, pointer_to};

/// The most violations that are reported: a hostile message can violate a rule half a million times.
const VIOLATIONS_MAX: usize = 100;
/// The most bytes of violations, since a pointer can be as long as a message. The violation that exceeds it is the
/// last.
const VIOLATION_BYTES_MAX: usize = 65_536;
/// The rule that a hostile message violates.
const TAKES_TOO_LONG: &str =
    "takes too long to check: it has too much of what the schema looks at again and again";

/// The first hundred violations of a schema by `instance`, whose own pointer is `at`.
pub(super) fn violations(
    validator: &Validator<Metered>,
    instance: &Value,
    meter: &Rc<Meter>,
    at: &str,
) -> Vec<Violation> {
    let reading = Reading { value: instance, meter: Some(meter), pointer_bytes: 0 };
    let Some(errors) = meter.during(|| unless_ended(|| validator.iter_errors(reading))) else {
        return vec![Violation::new(at, TAKES_TOO_LONG)];
    };
    let errors = errors.filter(|error| !std::ptr::eq(error.instance().as_ref(), &raw const NOT_READ));
    let mut list = ViolationList::default();
    for error in errors {
        if list.is_full() {
            break;
        }
        list.describe(&error, at);
    }
    let ViolationList { violations, .. } = list;
    let is_unknown = violations.is_empty() || !meter.marks_unread_values();
    if meter.is_exhausted() && is_unknown { vec![Violation::new(at, TAKES_TOO_LONG)] } else { violations }
}

/// `None` if the meter ended the check.
fn unless_ended<T>(check: impl FnOnce() -> T) -> Option<T> {
    // Safe to unwind: the validator keeps no state between checks.
    catch_unwind(AssertUnwindSafe(check))
        .map_err(|panic| if panic.is::<Ended>() { panic } else { resume_unwind(panic) })
        .ok()
}

#[derive(Default)]
struct ViolationList {
    violations: Vec<Violation>,
    bytes: usize,
}

impl ViolationList {
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
            // `jsonschema` would name two options and count the others.
            ValidationErrorKind::Enum { options } => self.push(pointer, one_of(options)),
            // The value is a member's name, which belongs into the pointer.
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
        self.violations.len() == VIOLATIONS_MAX || self.bytes > VIOLATION_BYTES_MAX
    }
}

/// The most options that are listed: more would hide other violations.
const OPTIONS_MAX: usize = 20;

/// Lists the schema's values, which are not the message's.
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

/// Removes the space that a masked value leaves.
fn without_value(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
