//! A view of a document that charges the meter for everything the validator reads.
//!
//! An exhausted meter yields no more items, members or characters, so that the check ends soon. [`NOT_READ`] marks the
//! violations that the validator reports after that.

mod containers;

use std::borrow::Cow;

use jsonschema::JsonType;
use jsonschema::json::{Json, JsonNumber, Node, NodeIdentity};
use serde_json::{Number, Value, json};

use crate::decimal::Decimal;
use crate::meter::{Meter, NUMBER, VIOLATION, of_bytes};
use containers::{Items, Members};

/// The value of violations in parts that were not read.
pub(crate) static NOT_READ: Value = Value::Null;

/// The name of the steps in a metering rule. `serde_json` reserves it, so no parsed schema can contain it.
const METERING_RULE: &str = "$serde_json::private::Number";

/// A `const` that any value satisfies, and whose evaluation takes this number of steps.
pub(crate) fn metering_rule(steps: u64) -> Value {
    json!({ METERING_RULE: steps })
}

fn steps_of_metering_rule(expected: &Value) -> Option<u64> {
    expected.as_object()?.get(METERING_RULE)?.as_u64()
}

/// Bytes of an index and its slash in a pointer.
const INDEX: usize = 8;

pub(crate) struct Metered;

/// A value with the meter of its check.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) value: &'a Value,
    pub(crate) meter: Option<&'a Meter>,
    /// Bytes of its pointer, which each of its violations contains.
    pub(crate) pointer_bytes: usize,
}

impl Reading<'_> {
    /// True if the steps were within the budget.
    pub(crate) fn spend(self, steps: u64) -> bool {
        self.meter.is_none_or(|meter| meter.spend(steps))
    }

    fn look(self) {
        self.meter.inspect(|meter| meter.look());
    }
}

impl Json for Metered {
    type Node<'a> = Reading<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    // A `Map` is a tree: a lookup compares some names.
    const KEYS_PER_LOOKUP: usize = 2;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(buffer: &mut Value, string: &str, f: impl FnOnce(Reading<'_>) -> T) -> T {
        *buffer = Value::String(string.to_owned());
        let meter = Meter::of_this_check();
        f(Reading { value: buffer, meter: meter.as_deref(), pointer_bytes: 0 })
    }
}

impl<'a> Node<'a, Metered> for Reading<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = Digits<'a>;

    fn as_object(&self) -> Option<Members<'a>> {
        self.look();
        self.value.as_object().map(|members| Members {
            members,
            meter: self.meter,
            pointer_bytes: self.pointer_bytes,
        })
    }

    fn as_array(&self) -> Option<Items<'a>> {
        self.look();
        self.value.as_array().map(|items| Items {
            items,
            meter: self.meter,
            pointer_bytes: self.pointer_bytes,
        })
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        self.look();
        let text = self.value.as_str()?;
        Some(Cow::Borrowed(if self.spend(of_bytes(text.len())) { text } else { "" }))
    }

    fn as_number(&self) -> Option<Digits<'a>> {
        self.look();
        let number = self.value.as_number()?;
        self.spend(of_bytes(number.as_str().len()));
        Some(Digits(number))
    }

    fn as_boolean(&self) -> Option<bool> {
        self.look();
        self.value.as_bool()
    }

    fn is_null(&self) -> bool {
        self.look();
        self.value.is_null()
    }

    fn is_number(&self) -> bool {
        self.look();
        self.value.is_number()
    }

    fn json_type(&self) -> JsonType {
        self.look();
        JsonType::from(self.value)
    }

    fn string_length(&self) -> Option<u64> {
        self.as_string().map(|text| text.chars().count() as u64)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match steps_of_metering_rule(expected) {
            Some(steps) => {
                self.spend(steps);
                true
            }
            None => self.equals(expected),
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        let bytes = self.value.as_str().map_or(0, str::len);
        let is_paid = self.spend(VIOLATION + of_bytes(bytes + 2 * self.pointer_bytes));
        let is_marked = !is_paid && self.meter.is_some_and(Meter::marks_unread_values);
        Cow::Borrowed(if is_marked { &NOT_READ } else { self.value })
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref(self.value) as usize))
    }
}

impl Reading<'_> {
    /// Equality by JSON Schema, which compares numbers by value.
    fn equals(self, expected: &Value) -> bool {
        self.look();
        let of = |value| Reading { value, ..self };
        match (self.value, expected) {
            (Value::Number(left), Value::Number(right)) => {
                self.spend(2 * NUMBER + of_bytes(left.as_str().len() + right.as_str().len()));
                Decimal::of(left) == Decimal::of(right)
            }
            (Value::String(left), Value::String(right)) => {
                left.len() == right.len() && self.spend(of_bytes(left.len())) && left == right
            }
            (Value::Array(left), Value::Array(right)) => {
                left.len() == right.len()
                    && left.iter().zip(right).all(|(left, right)| of(left).equals(right))
            }
            (Value::Object(left), Value::Object(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(name, left)| {
                        self.spend(of_bytes(name.len()))
                            && right.get(name).is_some_and(|right| of(left).equals(right))
                    })
            }
            (left, right) => left == right,
        }
    }
}

/// A number. The validator only asks whether it is an integer; [`crate::numeric`] reads its value.
pub(crate) struct Digits<'a>(pub(crate) &'a Number);

impl JsonNumber for Digits<'_> {
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
        Decimal::of(self.0).is_integer()
    }
}
