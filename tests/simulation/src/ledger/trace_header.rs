//! Documents in the trace header, where they are written if the attributes have no room. Parsed according to the
//! documentation rather than by the product's code.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redeliver_core::message::{Attribute, Attributes, Content};

use super::arrivals;

/// Returns the message as if redeliver's document had fit into `Failure`, with the producer's own trace header.
pub(super) fn attach_failure(content: &Content) -> Cow<'_, Content> {
    let Some((mut producers, document)) = content.trace_header.as_deref().and_then(split_document) else {
        return Cow::Borrowed(content);
    };
    while let Some((before, _)) = split_document(producers) {
        producers = before;
    }
    let is_none = producers == "Root=1-00000000-000000000000000000000000;Sampled=0";
    let mut attributes = content.attributes.clone();
    attributes.entry("Failure".to_owned()).or_insert(document);
    let trace_header = Some(producers.to_owned()).filter(|_| !is_none);
    Cow::Owned(Content { attributes, trace_header, ..content.clone() })
}

/// Splits off the last field if it is one of redeliver's documents. Returns the part before it and the document, which
/// never folds attributes.
fn split_document(header: &str) -> Option<(&str, Attribute)> {
    let (before, value) = header.rsplit_once(";Redeliver=").filter(|(before, _)| !before.is_empty())?;
    let document = String::from_utf8(URL_SAFE_NO_PAD.decode(value).ok()?).ok()?;
    let attributes = Attributes::from([("Failure".to_owned(), Attribute::string(document))]);
    let mut document = arrivals::valid_failure(&attributes)?;
    document.remove("folded_attributes");
    Some((before, Attribute::string(serde_json::Value::from(document).to_string())))
}
