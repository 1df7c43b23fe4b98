//! Metered objects and arrays.

use jsonschema::json::{Array, Object};
use serde_json::{Map, Value};

use super::{INDEX, Metered, Reading};
use crate::meter::{LOOK, Meter, of_bytes};
use crate::unique;

/// The members of an object.
pub(crate) struct Members<'a> {
    pub(super) members: &'a Map<String, Value>,
    pub(super) meter: Option<&'a Meter>,
    pub(super) pointer_bytes: usize,
}

impl<'a> Object<'a, Metered> for Members<'a> {
    type Node = Reading<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        if self.meter.is_some_and(Meter::is_exhausted) { 0 } else { self.members.len() }
    }

    fn get(&self, key: &String) -> Option<Reading<'a>> {
        let meter = self.meter;
        let is_paid = meter.is_none_or(|meter| meter.spend(of_bytes(key.len())));
        let pointer_bytes = self.pointer_bytes + key.len() + 1;
        self.members.get(key).filter(|_| is_paid).map(|value| Reading { value, meter, pointer_bytes })
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter { members: self.members.iter(), meter: self.meter, pointer_bytes: self.pointer_bytes }
    }
}

/// Iterates over [`Members`] in order.
pub(crate) struct MembersIter<'a> {
    members: serde_json::map::Iter<'a>,
    meter: Option<&'a Meter>,
    pointer_bytes: usize,
}

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Reading<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.members.next()?;
        let is_paid = self.meter.is_none_or(|meter| meter.spend(meter.cost_of_name(name)));
        let pointer_bytes = self.pointer_bytes + name.len() + 1;
        is_paid.then_some((name.as_str(), Reading { value, meter: self.meter, pointer_bytes }))
    }
}

/// The items of an array.
pub(crate) struct Items<'a> {
    pub(super) items: &'a [Value],
    pub(super) meter: Option<&'a Meter>,
    pub(super) pointer_bytes: usize,
}

impl<'a> Array<'a, Metered> for Items<'a> {
    type Node = Reading<'a>;
    type ElementsIter = ItemsIter<'a>;

    fn len(&self) -> usize {
        if self.meter.is_some_and(Meter::is_exhausted) { 0 } else { self.items.len() }
    }

    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter { items: self.items.iter(), meter: self.meter, pointer_bytes: self.pointer_bytes + INDEX }
    }

    fn is_unique(&self) -> bool {
        unique::are_unique(self.items, |bytes| self.meter.is_none_or(|meter| meter.spend(of_bytes(bytes))))
    }
}

/// Iterates over [`Items`] in order.
pub(crate) struct ItemsIter<'a> {
    items: std::slice::Iter<'a, Value>,
    meter: Option<&'a Meter>,
    pointer_bytes: usize,
}

impl<'a> Iterator for ItemsIter<'a> {
    type Item = Reading<'a>;

    fn next(&mut self) -> Option<Reading<'a>> {
        let value = self.items.next()?;
        let is_paid = self.meter.is_none_or(|meter| meter.spend(LOOK));
        is_paid.then_some(Reading { value, meter: self.meter, pointer_bytes: self.pointer_bytes })
    }
}
