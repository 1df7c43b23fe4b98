//! The options that every schema is compiled with.

use std::sync::Arc;

use jsonschema::{Retrieve, Uri, ValidationOptions};
use serde_json::Value;

use crate::metered::Metered;

/// Options to compile a schema.
pub(crate) type Options<'a> = ValidationOptions<'a, Arc<dyn Retrieve>, Metered>;

pub(crate) struct NoRemoteReferences;

impl Retrieve for NoRemoteReferences {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("remote references are refused; put {uri} under \"$defs\" of the schema itself").into())
    }
}
