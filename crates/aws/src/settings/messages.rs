//! The accepted messages: `ENVELOPE` and the user's schemas.

use redeliver_core::json::pointer::Pointer;
use redeliver_core::message::plain::{IdAttribute, IdSources, PlainMessages};
use redeliver_core::message::schema::{DataSchema, MessageSchema};

use super::reader::{Reader, Recorded};

const ID_ATTRIBUTE: &str = "MESSAGE_ID_ATTRIBUTE";
const ID_POINTER: &str = "MESSAGE_ID_POINTER";
const BODY_SCHEMA_PATH: &str = "BODY_SCHEMA_PATH";

pub(super) fn schema(reader: &mut Reader<'_>) -> Option<MessageSchema> {
    let envelopes = schema_in(reader, "DATA_SCHEMA_PATH").ok().map(MessageSchema::new);
    let is_optional = match reader.optional("ENVELOPE").as_deref() {
        None | Some("required") => Ok(false),
        Some("optional") => Ok(true),
        Some(_) => Err("must be required or optional"),
    };
    if reader.check("ENVELOPE", is_optional)? {
        let plain = plain(reader);
        return Some(envelopes?.with_plain(plain?));
    }
    for name in [ID_ATTRIBUTE, ID_POINTER, BODY_SCHEMA_PATH] {
        let unset = match reader.optional(name) {
            None => Ok(()),
            Some(_) => {
                Err("only applies to messages without an envelope: set ENVELOPE=optional, or remove it")
            }
        };
        reader.check(name, unset);
    }
    envelopes
}

fn plain(reader: &mut Reader<'_>) -> Option<PlainMessages> {
    let attribute = reader.optional(ID_ATTRIBUTE).map(IdAttribute::new).transpose();
    let attribute = reader.check(ID_ATTRIBUTE, attribute);
    let pointer = reader.optional(ID_POINTER).map(|text| Pointer::new(&text)).transpose();
    let pointer = reader.check(ID_POINTER, pointer);
    let body = schema_in(reader, BODY_SCHEMA_PATH);
    Some(PlainMessages { id: IdSources { attribute: attribute?, pointer: pointer? }, body: body.ok()? })
}

/// The schema in the file that a variable names, if it is set.
fn schema_in(reader: &mut Reader<'_>, name: &str) -> Result<Option<DataSchema>, Recorded> {
    let Some(path) = reader.optional(name) else { return Ok(None) };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!("names the file {path}, which cannot be read ({error}); it must be in the deployment package")
    });
    let schema = text
        .and_then(|text| DataSchema::new(&text).map_err(|error| format!("names the file {path}: {error}")));
    reader.check(name, schema).map(Some).ok_or(Recorded)
}
