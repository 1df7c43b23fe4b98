//! The pages. Each is a function from the state to markup.

pub(crate) mod bulk_edit;
pub(crate) mod cause;
pub(crate) mod dead_letter;
pub(crate) mod dead_letters;
pub(crate) mod diff;
pub(crate) mod edit;
pub(crate) mod facets;
pub(crate) mod fleet;
pub(crate) mod letter_links;
pub(crate) mod pause;
pub(crate) mod plans;
pub(crate) mod selected;
pub(crate) mod start_form;
pub(crate) mod status;
