//! Runs the validator, and turns its errors into violations.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use crate::date_time::violated_rule;
use crate::reading::{InstanceView, UNREAD, ValidatedJson, ViolationBudget};
use crate::{Violation, pointer_to};

/// Limit on reported violations: a hostile message can violate a rule half a million times.
const VIOLATIONS_MAX: usize = 100;
/// Limit on the total size of violations, since a pointer can be as long as a message. The violation that exceeds it is
/// the last one reported.
const VIOLATION_BYTES_MAX: usize = 65_536;
/// The violation that is reported if the branches of an `anyOf` use up the budget before the first violation is
/// complete.
const TOO_MANY: &str = "violates the schema in too many places to list";

/// Returns the first hundred violations in `instance`; each pointer starts with `at`.
pub(super) fn find_violations(
    validator: &Validator<ValidatedJson>,
    instance: &Value,
    at: &str,
) -> Vec<Violation> {
    if validator.is_valid(InstanceView::new(instance, None)) {
        return Vec::new();
    }
    let budget = ViolationBudget::default();
    let errors = validator.iter_errors(InstanceView::new(instance, Some(&budget)));
    let errors = errors.filter(|error| !std::ptr::eq(error.instance().as_ref(), &raw const UNREAD));
    let mut list = ViolationList::default();
    for error in errors {
        if list.is_full() {
            break;
        }
        list.push_error(&error, at);
    }
    if list.violations.is_empty() { vec![Violation::new(at, TOO_MANY)] } else { list.violations }
}

#[derive(Default)]
struct ViolationList {
    violations: Vec<Violation>,
    bytes: usize,
}

impl ViolationList {
    fn push_error(&mut self, error: &ValidationError<'_>, at: &str) {
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
            // `jsonschema` would list only two options and count the others.
            ValidationErrorKind::Enum { options } => self.push(pointer, describe_options(options)),
            // Here, the value is a member's name, which belongs in the pointer.
            ValidationErrorKind::PropertyNames { error } => {
                let name = error.instance().as_str().unwrap_or_default();
                let rule = collapse_spaces(&error.masked_with("").to_string());
                self.push(pointer_to(&pointer, name), format!("has a name that {rule}"));
            }
            ValidationErrorKind::Format { format } if format.as_str() == "date-time" => {
                self.push(pointer, violated_rule(error.instance().as_str().unwrap_or_default()));
            }
            _ => self.push(pointer, collapse_spaces(&error.masked_with("").to_string())),
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

/// Limit on listed options: a longer list would hide other violations.
const OPTIONS_MAX: usize = 20;

/// Lists the options, which are values from the schema rather than from the message.
fn describe_options(options: &Value) -> String {
    let options: Vec<_> = options.as_array().into_iter().flatten().map(ToString::to_string).collect();
    match options.as_slice() {
        [only] => format!("is not one of {only}"),
        [others @ .., last] if options.len() <= OPTIONS_MAX => {
            format!("is not one of {} or {last}", others.join(", "))
        }
        all => format!(
            "is not one of {}, …",
            all.iter().take(OPTIONS_MAX).cloned().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Removes the extra space that a masked value leaves behind.
fn collapse_spaces(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
