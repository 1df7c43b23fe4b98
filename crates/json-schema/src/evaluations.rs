//! How often a schema evaluates one and the same value. References can double it at each level, and the validator charges
//! nobody for a schema that looks at nothing.
//!
//! So it is counted before a value is seen, and bounded; and each schema that is evaluated gets a rule that looks at its
//! value, which the meter charges for.

use std::collections::{HashMap, HashSet};
use std::ptr;

use referencing::{Draft, Registry, RegistryBuilder, Resolver, uri};
use serde_json::{Map, Value};

use crate::SchemaError;
use crate::schema::NothingIsFetched;

/// Of one value. A union of two hundred events that share bases takes some thousands.
const EVALUATIONS_MAX: u64 = 50_000;
/// From reference to reference, or from branch to branch, in one value; a document has 127 levels, and each may go so
/// far: the stack has room for it, as a test shows.
const WAY_MAX: usize = 64;
/// Looks at a schema that was looked at before, to know it: only references that go round in one value need them.
const LOOKS_AGAIN_MAX: usize = 100_000;
/// What an evaluation takes by itself, which a look has to pay for.
const EVALUATION: u64 = 60;

/// Rules that look at any value.
const LOOKS: [&str; 4] = ["type", "const", "enum", "minItems"];
/// They do if they have anything to look for.
const LOOKS_UNLESS_EMPTY: [&str; 2] = ["properties", "required"];
/// The rule that is added: of any value it holds.
const A_LOOK: (&str, u64) = ("minItems", 0);

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

/// A schema in its document: what stands there is known by its address.
type Address = *const Value;

/// What is known of all values that a schema may see.
#[derive(Default)]
pub(crate) struct Evaluations {
    /// The schemas that do not look at their value.
    silent: HashSet<Address>,
    /// Evaluations that do nothing else, from one look to the next: at most so many.
    between_looks: u64,
}

impl Evaluations {
    /// # Errors
    /// If one value takes too many.
    pub(crate) fn of(schema: &Value) -> Result<Self, SchemaError> {
        let draft = Draft::default().detect(schema);
        let resource = draft.create_resource_ref(schema);
        let id = resource.id().unwrap_or("json-schema:///");
        let registry = Registry::new().draft(draft).retriever(NothingIsFetched).add(id, schema);
        let (Ok(base), Ok(registry)) = (uri::from_str(id), registry.and_then(RegistryBuilder::prepare))
        else {
            // The validator will not have it either, and says why.
            return Ok(Self::default());
        };
        let mut survey = Survey::default();
        let root = Place { schema, resolver: registry.resolver(base), draft };
        survey.find_anchors(&root);
        survey
            .run(root)
            .map_err(|at| SchemaError::Repeats { pointer: pointer_of(schema, at).unwrap_or_default() })?;
        let between_looks = survey.free_max + survey.hops_max + u64::from(!survey.silent.is_empty());
        Ok(Self { silent: survey.silent, between_looks })
    }

    /// What a look has to pay for besides itself.
    pub(crate) fn of_look(&self) -> u64 {
        self.between_looks * EVALUATION
    }

    /// The schema, each part of which looks at its value.
    pub(crate) fn looking(&self, schema: &Value) -> Value {
        match schema {
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), self.looking(value)));
                let is_silent = self.silent.contains(&ptr::from_ref(schema));
                let look = is_silent.then(|| (A_LOOK.0.to_owned(), A_LOOK.1.into()));
                members.chain(look).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.looking(item)).collect(),
            other => other.clone(),
        }
    }
}

/// A schema, and where references in it lead.
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

    /// Whether it only leads to another one; up to draft 7 nothing counts beside a reference.
    fn is_reference(&self) -> bool {
        let is_alone = matches!(self.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
        self.has("$ref") && (is_alone || self.schema.as_object().is_some_and(|members| members.len() == 1))
    }

    fn looks(&self) -> bool {
        let is_empty =
            |found: &Value| found.as_array().map_or(found == &Value::Object(Map::new()), Vec::is_empty);
        LOOKS.iter().any(|keyword| self.has(keyword))
            || LOOKS_UNLESS_EMPTY
                .iter()
                .any(|keyword| self.schema.get(keyword).is_some_and(|found| !is_empty(found)))
    }

    /// A part of it.
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
        found.into_iter().flat_map(Map::values).map(|schema| self.part(schema))
    }

    /// The schemas of which not all have to hold for the same value.
    fn branches(&self) -> impl Iterator<Item = Self> {
        BRANCHES.iter().flat_map(|keyword| self.parts(keyword))
    }

    fn lookup(&self, reference: &str) -> Option<Self> {
        let (schema, resolver, draft) = self.resolver.lookup(reference).ok()?.into_inner();
        Some(Self { schema, resolver, draft })
    }
}

/// How many schemas evaluate one value, with this one.
#[derive(Clone, Copy)]
struct Count {
    /// To know whether it is valid.
    verdict: u64,
    /// To know all that is wrong: branches are asked for their verdicts first.
    errors: u64,
    /// To know which members and items were evaluated, for `unevaluatedProperties` and `unevaluatedItems`: each branch
    /// is asked for its verdict by each schema above it.
    marks: u64,
    /// Of these, the ones before the first look, if there is none at all.
    free: u64,
    /// The ones before the first look, if there is one.
    hops: u64,
    /// The place on the way that references lead back to; there the validator stops.
    back_to: usize,
}

impl Count {
    const ONE: Self = Self { verdict: 1, errors: 1, marks: 0, free: 1, hops: 0, back_to: usize::MAX };

    fn add(&mut self, part: Self, is_branch: bool) {
        self.verdict += part.verdict;
        self.errors += part.errors + if is_branch { part.verdict } else { 0 };
        self.marks += part.verdict + part.marks;
        self.free += part.free;
        self.hops = self.hops.max(part.hops);
        self.back_to = self.back_to.min(part.back_to);
    }
}

#[derive(Default)]
struct Survey<'r> {
    /// What `$dynamicRef` and `$recursiveRef` may mean: the schemas of a name.
    anchors: HashMap<&'r str, Vec<Place<'r>>>,
    known: HashMap<Address, Count>,
    /// The schemas above, which evaluate the same value.
    way: Vec<Address>,
    looks_again: usize,
    /// What goes into the value's parts.
    of_parts: Vec<Place<'r>>,
    noted: HashSet<Address>,
    silent: HashSet<Address>,
    free_max: u64,
    hops_max: u64,
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
    /// The schema where they are too many.
    fn run(&mut self, root: Place<'r>) -> Result<(), Address> {
        self.of_parts.push(root);
        while let Some(place) = self.of_parts.pop() {
            self.count(&place)?;
        }
        Ok(())
    }

    fn count(&mut self, place: &Place<'r>) -> Result<Count, Address> {
        let address = place.address();
        if !place.schema.is_object() {
            return Ok(Count::ONE);
        }
        if let Some(&known) = self.known.get(&address) {
            return Ok(known);
        }
        if let Some(back_to) = self.way.iter().position(|&above| above == address) {
            return Ok(Count { back_to, ..Count::ONE });
        }
        self.looks_again += usize::from(self.noted.contains(&address));
        if self.looks_again > LOOKS_AGAIN_MAX || self.way.len() == WAY_MAX {
            return Err(address);
        }
        let depth = self.way.len();
        self.way.push(address);
        let mut count = Count { free: 0, ..Count::ONE };
        for part in place.branches() {
            count.add(self.count(&part)?, true);
        }
        for part in self.all_of(place) {
            count.add(self.count(&part)?, false);
        }
        self.way.pop();
        if ["unevaluatedProperties", "unevaluatedItems"].iter().any(|name| place.schema.get(name).is_some()) {
            count.verdict += count.marks;
            count.errors += count.marks;
        }
        if count.errors > EVALUATIONS_MAX {
            return Err(address);
        }
        self.note_looks(place, &mut count);
        // What leads back to a place above costs more on another way.
        if count.back_to >= depth {
            count.back_to = usize::MAX;
            self.known.insert(address, count);
        }
        self.note_parts(place);
        Ok(count)
    }

    /// The schemas that evaluate the same value, besides its branches.
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

    fn note_looks(&mut self, place: &Place<'r>, count: &mut Count) {
        (count.free, count.hops) = if !place.is_reference() {
            self.free_max = self.free_max.max(count.free);
            if !place.looks() {
                self.silent.insert(place.address());
            }
            (0, 0)
        } else if count.free > 0 {
            (count.free + 1, 0)
        } else {
            (0, count.hops + 1)
        };
        self.hops_max = self.hops_max.max(count.hops);
    }

    fn note_parts(&mut self, place: &Place<'r>) {
        if self.noted.insert(place.address()) {
            self.of_parts.extend(OF_PARTS.iter().flat_map(|keyword| place.parts(keyword)));
            self.of_parts.extend(OF_PARTS_BY_NAME.iter().flat_map(|keyword| place.parts_by_name(keyword)));
        }
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
