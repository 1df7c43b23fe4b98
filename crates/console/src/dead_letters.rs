//! The dead letters of a queue or a file, as of the last reading.

pub(crate) mod facets;
pub(crate) mod reading;
pub(crate) mod selection;
pub(crate) mod snapshot;
pub(crate) mod spool;
pub(crate) mod text_search;
