//! Views of an object's members and of an array's items.

use jsonschema::json::{Array, Object};
use serde_json::{Map, Value};

use super::{INDEX_BYTES, InstanceView, ValidatedJson};
use crate::unique;

pub(crate) struct MembersView<'a> {
    pub(super) members: &'a Map<String, Value>,
    pub(super) object: InstanceView<'a>,
}

impl<'a> Object<'a, ValidatedJson> for MembersView<'a> {
    type Node = InstanceView<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.members.len()
    }

    fn get(&self, key: &String) -> Option<InstanceView<'a>> {
        self.members.get(key).map(|value| self.object.child_view(value, key.len() + 1))
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter { members: self.members.iter(), object: self.object }
    }
}

/// An iterator over members that ends early once the budget for violations is spent.
pub(crate) struct MembersIter<'a> {
    members: serde_json::map::Iter<'a>,
    object: InstanceView<'a>,
}

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, InstanceView<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.members.next().filter(|_| !self.object.is_budget_spent())?;
        Some((name, self.object.child_view(value, name.len() + 1)))
    }
}

pub(crate) struct ItemsView<'a> {
    pub(super) items: &'a [Value],
    pub(super) array: InstanceView<'a>,
}

impl<'a> Array<'a, ValidatedJson> for ItemsView<'a> {
    type Node = InstanceView<'a>;
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

/// An iterator over items that ends early once the budget for violations is spent.
pub(crate) struct ItemsIter<'a> {
    items: std::slice::Iter<'a, Value>,
    array: InstanceView<'a>,
}

impl<'a> Iterator for ItemsIter<'a> {
    type Item = InstanceView<'a>;

    fn next(&mut self) -> Option<InstanceView<'a>> {
        let value = self.items.next().filter(|_| !self.array.is_budget_spent())?;
        Some(self.array.child_view(value, INDEX_BYTES))
    }
}
