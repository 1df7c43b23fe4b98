//! Counts how often a schema evaluates one value. References can double the number at each level, and the meter does not
//! notice schemas that never read their value.
//!
//! The evaluations are counted and limited before the validator sees a document, and each schema that does not read its
//! value gets a rule that charges the meter for it.

use std::collections::{HashMap, HashSet};
use std::ptr;

use referencing::{Draft, Registry, RegistryBuilder, Resolver, uri};
use serde_json::{Map, Value};

use crate::SchemaError;
use crate::metered::metering_rule;
use crate::options::NoRemoteReferences;

/// The most evaluations of one value. A union of two hundred events with shared bases takes some thousands.
const EVALUATIONS_MAX: u64 = 50_000;
/// The most nested schemas for one value if the schema is recursive: a document has 127 levels, and each may nest as
/// many. A test shows that the stack has room.
const RECURSIVE_ANCESTORS_MAX: usize = 64;
/// The same for other schemas, such as a long chain of `else`.
const ANCESTORS_MAX: usize = 256;
/// The most repeated surveys of schemas, which only circular references for one value need.
const SURVEYED_AGAIN_MAX: usize = 100_000;
/// Steps of an evaluation, without those for reading.
const EVALUATION: u64 = 150;

/// Keywords that read any value.
const READING: [&str; 4] = ["type", "const", "enum", "minItems"];
/// Keywords that read a value unless they are empty.
const READING_UNLESS_EMPTY: [&str; 2] = ["properties", "required"];
/// Keywords that may hold a metering rule, since they are checked before any that can fail without reading the value.
const METERING: [&str; 2] = ["enum", "const"];
/// Keywords whose content is data, not a schema.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];
const BRANCHES: [&str; 4] = ["anyOf", "oneOf", "not", "if"];
const ALL_OF: [&str; 3] = ["allOf", "then", "else"];
const ALL_OF_BY_NAME: [&str; 2] = ["dependentSchemas", "dependencies"];
const OF_PARTS: [&str; 8] = [
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "unevaluatedItems",
];
const OF_PARTS_BY_NAME: [&str; 2] = ["properties", "patternProperties"];

/// The address of a schema in its document, which identifies it.
type Address = *const Value;

/// The evaluations by a schema that the meter would not notice.
#[derive(Default)]
pub(crate) struct Evaluations {
    /// By the schema that is charged for them.
    unmetered: HashMap<Address, u64>,
    /// References that end at a boolean, which cannot be charged.
    booleans: HashMap<Address, bool>,
    /// All objects that are evaluated as schemas.
    schemas: HashSet<Address>,
}

impl Evaluations {
    /// # Errors
    /// If one value needs too many.
    pub(crate) fn of(schema: &Value) -> Result<Self, SchemaError> {
        let draft = Draft::default().detect(schema);
        let resource = draft.create_resource_ref(schema);
        let id = resource.id().unwrap_or("json-schema:///");
        let registry = Registry::new().draft(draft).retriever(NoRemoteReferences).add(id, schema);
        let (Ok(base), Ok(registry)) = (uri::from_str(id), registry.and_then(RegistryBuilder::prepare))
        else {
            // The validator refuses it, too, with a reason.
            return Ok(Self::default());
        };
        let root = Place { schema, resolver: registry.resolver(base), draft };
        let survey = |ancestors_max| {
            Survey::of(&root, ancestors_max).map_err(|excess: Excess| excess.error(schema, ancestors_max))
        };
        let mut survey = match survey(ANCESTORS_MAX)? {
            shallow if shallow.height_max <= RECURSIVE_ANCESTORS_MAX => shallow,
            deep if deep.is_recursive() => survey(RECURSIVE_ANCESTORS_MAX)?,
            deep => deep,
        };
        for (target, references) in survey.reference_chains {
            *survey.unmetered.entry(target).or_default() += references;
        }
        survey.unmetered.retain(|_, evaluations| *evaluations > 0);
        Ok(Self { unmetered: survey.unmetered, booleans: survey.booleans, schemas: survey.noted })
    }

    /// The schema with rules that charge the meter for all evaluations.
    pub(crate) fn with_metering_rules(&self, schema: &Value) -> Value {
        let address = ptr::from_ref(schema);
        match schema {
            Value::Object(members) => {
                if let Some(&end) = self.booleans.get(&address) {
                    return end.into();
                }
                // A property may be named like a keyword.
                let is_schema = self.schemas.contains(&address);
                let member = |(name, value): (&String, &Value)| {
                    let is_data = is_schema && DATA.contains(&name.as_str());
                    (name.clone(), if is_data { value.clone() } else { self.with_metering_rules(value) })
                };
                members.iter().map(member).chain(self.metering_member(address, members)).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.with_metering_rules(item)).collect(),
            other => other.clone(),
        }
    }

    fn metering_member(&self, schema: Address, members: &Map<String, Value>) -> Option<(String, Value)> {
        let rule = metering_rule(self.unmetered.get(&schema)? * EVALUATION);
        let keyword = METERING.into_iter().find(|keyword| !members.contains_key(*keyword))?;
        Some((keyword.to_owned(), if keyword == "enum" { Value::Array(vec![rule]) } else { rule }))
    }
}

/// A limit that a schema exceeds, with its place.
enum Excess {
    Repeats(Address),
    TooDeep(Address),
}

impl Excess {
    fn error(&self, schema: &Value, ancestors_max: usize) -> SchemaError {
        let pointer = |at: Address| pointer_of(schema, at).unwrap_or_default();
        match *self {
            Self::Repeats(at) => SchemaError::Repeats { pointer: pointer(at), max: EVALUATIONS_MAX },
            Self::TooDeep(at) => SchemaError::TooDeep { pointer: pointer(at), max: ancestors_max },
        }
    }
}

/// A schema with the resolver of its references.
#[derive(Clone)]
struct Place<'r> {
    schema: &'r Value,
    resolver: Resolver<'r>,
    draft: Draft,
}

impl<'r> Place<'r> {
    fn address(&self) -> Address {
        ptr::from_ref(self.schema)
    }

    fn has(&self, keyword: &str) -> bool {
        self.schema.get(keyword).is_some()
    }

    /// True if it only refers to another one; up to draft 7, keywords beside a reference are ignored.
    fn is_reference(&self) -> bool {
        let is_alone = matches!(self.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
        self.has("$ref") && (is_alone || self.schema.as_object().is_some_and(|members| members.len() == 1))
    }

    fn reads(&self) -> bool {
        let is_empty =
            |found: &Value| found.as_array().map_or(found == &Value::Object(Map::new()), Vec::is_empty);
        READING.iter().any(|keyword| self.has(keyword))
            || READING_UNLESS_EMPTY
                .iter()
                .any(|keyword| self.schema.get(keyword).is_some_and(|found| !is_empty(found)))
    }

    /// A subschema.
    fn part(&self, schema: &'r Value) -> Self {
        let draft = self.draft.detect(schema);
        let resolver = self.resolver.in_subresource(draft.create_resource_ref(schema));
        Self { schema, resolver: resolver.unwrap_or_else(|_| self.resolver.clone()), draft }
    }

    /// The schemas under a keyword: itself, or its items.
    fn parts(&self, keyword: &str) -> impl Iterator<Item = Self> {
        let found = self.schema.get(keyword);
        let items = found.and_then(Value::as_array).into_iter().flatten();
        let one = found.filter(|found| found.is_object() || found.is_boolean());
        one.into_iter().chain(items).map(|schema| self.part(schema))
    }

    fn parts_by_name(&self, keyword: &str) -> impl Iterator<Item = Self> {
        let found = self.schema.get(keyword).and_then(Value::as_object);
        // Up to draft 7, `dependencies` may have arrays of names.
        let schemas = found.into_iter().flat_map(Map::values).filter(|found| !found.is_array());
        schemas.map(|schema| self.part(schema))
    }

    /// Subschemas for the same value that need not all be valid.
    fn branches(&self) -> impl Iterator<Item = Self> {
        BRANCHES.iter().flat_map(|keyword| self.parts(keyword))
    }

    fn lookup(&self, reference: &str) -> Option<Self> {
        let (schema, resolver, draft) = self.resolver.lookup(reference).ok()?.into_inner();
        Some(Self { schema, resolver, draft })
    }
}

/// The numbers of schemas that evaluate one value, including this one.
#[derive(Clone, Copy)]
struct Count<'r> {
    /// To decide whether it is valid.
    verdict: u64,
    /// To list all errors; branches are asked for their verdicts first.
    errors: u64,
    /// To mark evaluated members and items for `unevaluatedProperties` and `unevaluatedItems`; each schema above a
    /// branch asks for its verdict.
    marks: u64,
    /// Evaluations that the schema above is charged for.
    unmetered: u64,
    /// The schema at the end of references, with their number.
    end: Option<(&'r Value, u64)>,
    /// The longest chain of nested schemas for the value, from this one.
    height: usize,
    /// The ancestor that references lead back to, where the validator stops.
    back_to: usize,
}

impl Count<'_> {
    const ONE: Self =
        Self { verdict: 1, errors: 1, marks: 0, unmetered: 1, end: None, height: 1, back_to: usize::MAX };

    fn add(&mut self, part: Self, is_branch: bool) {
        self.verdict += part.verdict;
        self.errors += part.errors + if is_branch { part.verdict } else { 0 };
        self.marks += part.verdict + part.marks;
        self.unmetered += part.unmetered;
        self.end = part.end;
        self.height = self.height.max(part.height + 1);
        self.back_to = self.back_to.min(part.back_to);
    }
}

#[derive(Default)]
struct Survey<'r> {
    /// The possible targets of `$dynamicRef` and `$recursiveRef` by name.
    anchors: HashMap<&'r str, Vec<Place<'r>>>,
    known: HashMap<Address, Count<'r>>,
    /// The schemas above for the same value.
    ancestors: Vec<Address>,
    surveyed_again: usize,
    /// Schemas for the value's members and items.
    of_parts: Vec<Place<'r>>,
    noted: HashSet<Address>,
    subschemas: HashMap<Address, Vec<Address>>,
    ancestors_max: usize,
    height_max: usize,
    unmetered: HashMap<Address, u64>,
    booleans: HashMap<Address, bool>,
    /// The longest chain of references to each schema.
    reference_chains: HashMap<Address, u64>,
}

/// The name of `$recursiveAnchor`, which has none.
const RECURSIVE: &str = "";

impl<'r> Survey<'r> {
    fn find_anchors(&mut self, place: &Place<'r>) {
        match place.schema {
            Value::Object(members) => {
                if let Some(Value::String(name)) = members.get("$dynamicAnchor") {
                    self.anchors.entry(name).or_default().push(place.clone());
                }
                if members.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                    self.anchors.entry(RECURSIVE).or_default().push(place.clone());
                }
                members.values().for_each(|value| self.find_anchors(&place.part(value)));
            }
            Value::Array(items) => items.iter().for_each(|item| self.find_anchors(&place.part(item))),
            _ => {}
        }
    }

    /// # Errors
    /// The schema that exceeds a limit.
    fn of(root: &Place<'r>, ancestors_max: usize) -> Result<Self, Excess> {
        let mut survey = Self { ancestors_max, ..Self::default() };
        survey.find_anchors(root);
        survey.of_parts.push(root.clone());
        while let Some(place) = survey.of_parts.pop() {
            survey.count(&place)?;
        }
        Ok(survey)
    }

    fn count(&mut self, place: &Place<'r>) -> Result<Count<'r>, Excess> {
        let address = place.address();
        if !place.schema.is_object() {
            return Ok(Count { end: Some((place.schema, 0)), ..Count::ONE });
        }
        if let Some(&known) = self.known.get(&address) {
            let is_too_deep = self.ancestors.len() + known.height > self.ancestors_max;
            return if is_too_deep { Err(Excess::TooDeep(address)) } else { Ok(known) };
        }
        if let Some(back_to) = self.ancestors.iter().position(|&above| above == address) {
            return Ok(Count { back_to, ..Count::ONE });
        }
        self.surveyed_again += usize::from(self.noted.contains(&address));
        if self.surveyed_again > SURVEYED_AGAIN_MAX {
            return Err(Excess::Repeats(address));
        }
        if self.ancestors.len() == self.ancestors_max {
            return Err(Excess::TooDeep(address));
        }
        let depth = self.ancestors.len();
        self.ancestors.push(address);
        let mut count = Count { unmetered: 0, ..Count::ONE };
        let branches: Vec<_> = place.branches().collect();
        let all_of = self.all_of(place);
        for part in &branches {
            count.add(self.count(part)?, true);
        }
        for part in &all_of {
            count.add(self.count(part)?, false);
        }
        self.ancestors.pop();
        let subschemas = count.verdict;
        let marks = place.has("unevaluatedProperties") || place.has("unevaluatedItems");
        if marks {
            count.verdict += count.marks;
            count.errors += count.marks;
        }
        if count.errors > EVALUATIONS_MAX {
            return Err(Excess::Repeats(address));
        }
        if place.is_reference() {
            self.note_reference(place, &mut count);
        } else {
            // To mark evaluated parts, the validator visits the subschemas without their rules.
            self.note_unmetered(place, &mut count, if marks { 2 * subschemas } else { 0 });
        }
        // A schema that leads back to an ancestor may cost more by another path, so its count is not kept.
        if count.back_to >= depth {
            count.back_to = usize::MAX;
            self.known.insert(address, count);
        }
        self.height_max = self.height_max.max(count.height);
        self.note_parts(place, branches.into_iter().chain(all_of));
        Ok(count)
    }

    /// Subschemas for the same value, without its branches.
    fn all_of(&self, place: &Place<'r>) -> Vec<Place<'r>> {
        let reference = |keyword: &str| place.schema.get(keyword).and_then(Value::as_str);
        let mut parts: Vec<_> = ALL_OF.iter().flat_map(|keyword| place.parts(keyword)).collect();
        parts.extend(ALL_OF_BY_NAME.iter().flat_map(|keyword| place.parts_by_name(keyword)));
        let references = ["$ref", "$dynamicRef", "$recursiveRef"].into_iter().filter_map(reference);
        parts.extend(references.filter_map(|reference| place.lookup(reference)));
        let dynamic = reference("$dynamicRef").and_then(|reference| reference.rsplit_once('#'));
        let names = [dynamic.map(|(_, name)| name), reference("$recursiveRef").map(|_| RECURSIVE)];
        let anchors = names.into_iter().flatten().filter_map(|name| self.anchors.get(name));
        parts.extend(anchors.flatten().cloned());
        parts
    }

    fn note_reference(&mut self, place: &Place<'r>, count: &mut Count<'r>) {
        let is_alone = place.schema.as_object().is_some_and(|members| members.len() == 1);
        match &mut count.end {
            Some((Value::Bool(end), _)) if is_alone && place.draft != Draft::Draft4 => {
                self.booleans.insert(place.address(), *end);
            }
            Some((end @ Value::Object(_), references)) => {
                *references += 1;
                let longest = self.reference_chains.entry(ptr::from_ref(*end)).or_default();
                *longest = (*longest).max(*references);
            }
            _ => count.unmetered += 1,
        }
    }

    fn note_unmetered(&mut self, place: &Place<'r>, count: &mut Count<'r>, marks: u64) {
        let unmetered = u64::from(!place.reads()) + count.unmetered + marks;
        self.unmetered.insert(place.address(), unmetered);
        count.unmetered = 0;
        count.end = Some((place.schema, 0));
    }

    fn note_parts(&mut self, place: &Place<'r>, of_same_value: impl Iterator<Item = Place<'r>>) {
        if self.noted.insert(place.address()) {
            let mut parts: Vec<_> = OF_PARTS.iter().flat_map(|keyword| place.parts(keyword)).collect();
            parts.extend(OF_PARTS_BY_NAME.iter().flat_map(|keyword| place.parts_by_name(keyword)));
            let subschemas = of_same_value.map(|part| part.address());
            let subschemas = subschemas.chain(parts.iter().map(Place::address)).collect();
            self.subschemas.insert(place.address(), subschemas);
            self.of_parts.extend(parts);
        }
    }

    /// True if a schema is its own subschema, found by removing schemas without parents until none is left (Kahn's
    /// algorithm).
    fn is_recursive(&self) -> bool {
        let mut parents: HashMap<_, usize> = HashMap::new();
        for subschema in self.subschemas.values().flatten() {
            *parents.entry(subschema).or_default() += 1;
        }
        let mut without_parents: Vec<_> =
            self.subschemas.keys().filter(|schema| !parents.contains_key(schema)).collect();
        while let Some(schema) = without_parents.pop() {
            for subschema in self.subschemas.get(schema).into_iter().flatten() {
                let left = parents.entry(subschema).or_default();
                *left -= 1;
                if *left == 0 {
                    parents.remove(subschema);
                    without_parents.push(subschema);
                }
            }
        }
        !parents.is_empty()
    }
}

fn pointer_of(within: &Value, wanted: Address) -> Option<String> {
    if ptr::eq(within, wanted) {
        return Some(String::new());
    }
    match within {
        Value::Object(members) => members
            .iter()
            .find_map(|(name, value)| Some(crate::pointer_to("", name) + &pointer_of(value, wanted)?)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| Some(format!("/{index}{}", pointer_of(item, wanted)?))),
        _ => None,
    }
}
