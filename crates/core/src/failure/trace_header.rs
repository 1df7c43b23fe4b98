//! The place of last resort: a document in the trace header, the system attribute `AWSTraceHeader`. It counts neither
//! towards the 1 MiB nor towards the ten attributes ("Amazon SQS and AWS X-Ray", AWS X-Ray Developer Guide), and an
//! application may add fields of its own ("Request tracing for your Application Load Balancer", Elastic Load Balancing).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use super::reading::RawFailure;
use super::wire::Wire;

/// Our field, always the last one. Its value is the document in base64: JSON has characters that end a field.
const FIELD: &str = ";Redeliver=";
/// What our field stands behind if the producer gave no header: the id of no trace, which tracers pass over.
const UNTRACED: &str = "Root=1-00000000-000000000000000000000000;Sampled=0";
/// The shortest limit that AWS documents for such a header ("StartExecution", AWS Step Functions API Reference). SQS
/// documents none.
const HEADER_BYTES_MAX: usize = 256;

/// The producer's trace header with as much of the document as fits, and at least with what decides.
pub(super) fn with_document(wire: &Wire<'_>, producers: Option<&str>) -> String {
    let producers = producers.unwrap_or(UNTRACED);
    let left = HEADER_BYTES_MAX.saturating_sub(producers.len() + FIELD.len());
    let fits = |json: &str| json.len().div_ceil(3) * 4 <= left;
    let document = wire.largest_fitting(fits).unwrap_or_else(|| wire.barest().json());
    format!("{producers}{FIELD}{}", BASE64.encode(document))
}

/// The producer's trace header, and the document that stood behind it.
pub(crate) fn taken_apart(header: Option<String>) -> (Option<String>, Option<RawFailure>) {
    let Some(header) = header else { return (None, None) };
    let Some((before, document)) = split(&header) else { return (Some(header), None) };
    // A producer may have written such a field itself: behind it stood ours, which says what is so.
    let mut producers = before;
    while let Some((before, _)) = split(producers) {
        producers = before;
    }
    let producers = (producers != UNTRACED).then(|| producers.to_owned());
    (producers, Some(document))
}

/// What stands before our field, and its document.
fn split(header: &str) -> Option<(&str, RawFailure)> {
    let (before, value) = header.rsplit_once(FIELD).filter(|(before, _)| !before.is_empty())?;
    let text = String::from_utf8(BASE64.decode(value).ok()?).ok()?;
    Some((before, RawFailure::text(&text)?))
}
