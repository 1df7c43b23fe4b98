//! What the tests of several commands share.

pub(crate) mod browser;
pub(crate) mod loopback;
