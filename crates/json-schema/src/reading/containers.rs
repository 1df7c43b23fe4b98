//! The members of an object, and the items of an array.

use jsonschema::json::{Array, Object};
use serde_json::{Map, Value};

use super::{Document, INDEX_BYTES, Reading};
use crate::unique;

pub(crate) struct Members<'a> {
    pub(super) members: &'a Map<String, Value>,
    pub(super) object: Reading<'a>,
}

impl<'a> Object<'a, Document> for Members<'a> {
    type Node = Reading<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.members.len()
    }

    fn get(&self, key: &String) -> Option<Reading<'a>> {
        self.members.get(key).map(|value| self.object.part(value, key.len() + 1))
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter { members: self.members.iter(), object: self.object }
    }
}

/// Ends early when the budget of violations is spent.
pub(crate) struct MembersIter<'a> {
    members: serde_json::map::Iter<'a>,
    object: Reading<'a>,
}

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Reading<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.members.next().filter(|_| !self.object.is_over())?;
        Some((name, self.object.part(value, name.len() + 1)))
    }
}

pub(crate) struct Items<'a> {
    pub(super) items: &'a [Value],
    pub(super) array: Reading<'a>,
}

impl<'a> Array<'a, Document> for Items<'a> {
    type Node = Reading<'a>;
    type ElementsIter = ItemsIter<'a>;

    fn len(&self) -> usize {
        self.items.len()
    }

    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter { items: self.items.iter(), array: self.array }
    }

    fn is_unique(&self) -> bool {
        unique::are_unique(self.items)
    }
}

/// Ends early when the budget of violations is spent.
pub(crate) struct ItemsIter<'a> {
    items: std::slice::Iter<'a, Value>,
    array: Reading<'a>,
}

impl<'a> Iterator for ItemsIter<'a> {
    type Item = Reading<'a>;

    fn next(&mut self) -> Option<Reading<'a>> {
        let value = self.items.next().filter(|_| !self.array.is_over())?;
        Some(self.array.part(value, INDEX_BYTES))
    }
}
