//! The accepted messages: `ENVELOPE` and the user's schemas.

use redeliver_core::json::pointer::Pointer;
use redeliver_core::message::plain::{IdAttribute, IdSources, PlainMessages};
use redeliver_core::message::schema::{DataSchema, MessageSchema};

use super::reader::{RecordedError, SettingsReader};

const ID_ATTRIBUTE: &str = "MESSAGE_ID_ATTRIBUTE";
const ID_POINTER: &str = "MESSAGE_ID_POINTER";
const BODY_SCHEMA_PATH: &str = "BODY_SCHEMA_PATH";

pub(super) fn read_schema(reader: &mut SettingsReader<'_>) -> Option<MessageSchema> {
    let envelopes = read_schema_file(reader, "DATA_SCHEMA_PATH").ok().map(MessageSchema::new);
    let is_optional = match reader.optional("ENVELOPE").as_deref() {
        None | Some("required") => Ok(false),
        Some("optional") => Ok(true),
        Some(_) => Err("must be required or optional"),
    };
    if reader.check_value("ENVELOPE", is_optional)? {
        let plain = read_plain_messages(reader);
        return Some(envelopes?.with_plain(plain?));
    }
    for name in [ID_ATTRIBUTE, ID_POINTER, BODY_SCHEMA_PATH] {
        let unset = match reader.optional(name) {
            None => Ok(()),
            Some(_) => {
                Err("only applies to messages without an envelope: set ENVELOPE=optional, or remove it")
            }
        };
        reader.check_value(name, unset);
    }
    envelopes
}

fn read_plain_messages(reader: &mut SettingsReader<'_>) -> Option<PlainMessages> {
    let attribute = reader.optional(ID_ATTRIBUTE).map(IdAttribute::new).transpose();
    let attribute = reader.check_value(ID_ATTRIBUTE, attribute);
    let pointer = reader.optional(ID_POINTER).map(|text| Pointer::new(&text)).transpose();
    let pointer = reader.check_value(ID_POINTER, pointer);
    let body = read_schema_file(reader, BODY_SCHEMA_PATH);
    Some(PlainMessages { id: IdSources { attribute: attribute?, pointer: pointer? }, body: body.ok()? })
}

/// Reads the schema file whose path is in the variable `name`, if set.
fn read_schema_file(
    reader: &mut SettingsReader<'_>,
    name: &str,
) -> Result<Option<DataSchema>, RecordedError> {
    let Some(path) = reader.optional(name) else { return Ok(None) };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!("names the file {path}, which cannot be read ({error}); it must be in the deployment package")
    });
    let schema = text
        .and_then(|text| DataSchema::new(&text).map_err(|error| format!("names the file {path}: {error}")));
    reader.check_value(name, schema).map(Some).ok_or(RecordedError)
}
