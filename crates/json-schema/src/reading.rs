//! A view of a document that supports numbers of any length and stops the validator after enough violations.
//!
//! The validator creates all violations before it returns the first, including those of each branch of an `anyOf`. A
//! hostile message can cause half a million violations, or a number that doubles with each level of nesting. Once the
//! budget for violations is spent, the view reads as null, so that the validator finishes soon, and [`UNREAD`] marks
//! all later violations.

mod containers;

use std::borrow::Cow;
use std::cell::Cell;

use jsonschema::JsonType;
use jsonschema::json::{Json, JsonNumber, Node, NodeIdentity};
use serde_json::{Number, Value};

use crate::decimal::Decimal;
use containers::{ItemsView, MembersView};

/// Limit on the memory for violations: each takes about half a kilobyte plus its pointer.
const VIOLATION_BYTES_MAX: usize = 8 << 20;
const VIOLATION_BYTES: usize = 500;
/// Size of an index and its slash in a pointer.
const INDEX_BYTES: usize = 8;

/// The value in violations that are created after the budget is spent.
pub(crate) static UNREAD: Value = Value::Null;
/// The value in other violations of an array or object. The real value is never shown, and a copy of it could be as
/// large as the message.
static CONTAINER: Value = Value::Null;

/// The budget for the violations of one check.
pub(crate) struct ViolationBudget(Cell<usize>);

impl Default for ViolationBudget {
    fn default() -> Self {
        Self(Cell::new(VIOLATION_BYTES_MAX))
    }
}

impl ViolationBudget {
    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }

    fn spend(&self, bytes: usize) {
        self.0.set(self.0.get().saturating_sub(bytes));
    }
}

/// The representation of documents for the validator.
pub(crate) struct ValidatedJson;

/// A value in a document.
#[derive(Clone, Copy)]
pub(crate) struct InstanceView<'a> {
    value: &'a Value,
    /// The budget; `None` if no violations are created.
    budget: Option<&'a ViolationBudget>,
    /// Size of the value's pointer, which each of its violations contains.
    pointer_bytes: usize,
}

impl<'a> InstanceView<'a> {
    pub(crate) fn new(value: &'a Value, budget: Option<&'a ViolationBudget>) -> Self {
        Self { value, budget, pointer_bytes: 0 }
    }

    /// Returns the value, or null once the budget is spent.
    pub(crate) fn value(self) -> &'a Value {
        if self.is_budget_spent() { &UNREAD } else { self.value }
    }

    /// True once the budget is spent.
    pub(crate) fn is_budget_spent(self) -> bool {
        self.budget.is_some_and(ViolationBudget::is_spent)
    }

    fn child_view(self, value: &'a Value, pointer_bytes: usize) -> Self {
        Self { value, pointer_bytes: self.pointer_bytes + pointer_bytes, ..self }
    }
}

impl Json for ValidatedJson {
    type Node<'a> = InstanceView<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    // A `Map` is a tree, in which a lookup compares several names.
    const KEYS_PER_LOOKUP: usize = 2;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(buffer: &mut Value, string: &str, f: impl FnOnce(InstanceView<'_>) -> T) -> T {
        *buffer = Value::String(string.to_owned());
        f(InstanceView::new(buffer, None))
    }
}

impl<'a> Node<'a, ValidatedJson> for InstanceView<'a> {
    type Object = MembersView<'a>;
    type Array = ItemsView<'a>;
    type Number = NumberView<'a>;

    fn as_object(&self) -> Option<MembersView<'a>> {
        self.value().as_object().map(|members| MembersView { members, object: *self })
    }

    fn as_array(&self) -> Option<ItemsView<'a>> {
        self.value().as_array().map(|items| ItemsView { items, array: *self })
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        self.value().as_str().map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<NumberView<'a>> {
        self.value().as_number().map(NumberView)
    }

    fn as_boolean(&self) -> Option<bool> {
        self.value().as_bool()
    }

    fn is_null(&self) -> bool {
        self.value().is_null()
    }

    fn json_type(&self) -> JsonType {
        JsonType::from(self.value())
    }

    fn equals_value(&self, expected: &Value) -> bool {
        are_equal(self.value(), expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        let Some(budget) = self.budget else {
            return Cow::Borrowed(self.value);
        };
        if budget.is_spent() {
            return Cow::Borrowed(&UNREAD);
        }
        budget.spend(VIOLATION_BYTES + self.pointer_bytes);
        let is_container = matches!(self.value, Value::Array(_) | Value::Object(_));
        Cow::Borrowed(if is_container { &CONTAINER } else { self.value })
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref(self.value) as usize))
    }
}

/// Compares values as JSON Schema does: numbers are equal if their values are.
pub(crate) fn are_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            Decimal::from_number(left) == Decimal::from_number(right)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| are_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, left)| right.get(name).is_some_and(|right| are_equal(left, right)))
        }
        (left, right) => left == right,
    }
}

/// A number. The validator checks only whether it is an integer; [`crate::numeric`] reads its value.
pub(crate) struct NumberView<'a>(&'a Number);

impl JsonNumber for NumberView<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.0.as_u64()
    }

    fn as_i64(&self) -> Option<i64> {
        self.0.as_i64()
    }

    fn as_f64(&self) -> Option<f64> {
        self.0.as_f64()
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0.as_str())
    }

    fn to_number(&self) -> Cow<'_, Number> {
        Cow::Borrowed(self.0)
    }

    fn is_integer(&self) -> bool {
        Decimal::from_number(self.0).is_integer()
    }
}
