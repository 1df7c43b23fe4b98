//! Helpers that several test modules share.

pub(crate) mod hmac;
pub(crate) mod loopback;
