//! The shapes of hostile JSON: object members that take up as many bytes as the reader accepts.

use super::fill_up_to;

/// The nesting depth that every reader accepts: a message may have 128 levels, some of them around the hostile part.
const LEVELS: usize = 100;

/// A function that returns members of an object in at most this many bytes.
pub(super) type MakeMembers = fn(usize) -> String;

/// The shapes, by name.
pub(super) const SHAPES: [(&str, MakeMembers); 13] = [
    ("many members", |bytes| fill_up_to(bytes, |index| format!(r#""{index:x}":0"#))),
    ("long names", |bytes| fill_up_to(bytes, |index| format!(r#""{}{index:x}":0"#, "a".repeat(400)))),
    ("one name again and again", |bytes| fill_up_to(bytes, |_| r#""n":0"#.to_owned())),
    ("names with escapes", |bytes| fill_up_to(bytes, |index| format!(r#""\u0041\u0042{index:x}":"""#))),
    ("objects in objects", |bytes| {
        let level = fill_up_to(bytes / LEVELS - 20, |index| format!(r#""{index:x}":0"#));
        format!(r#"{}"n":0{}"#, format!(r#"{level},"n":{{"#).repeat(LEVELS), "}".repeat(LEVELS))
    }),
    ("values below a hundred levels", |bytes| {
        let zeros = "0,".repeat((bytes - 20) / 2 - LEVELS);
        format!(r#""n":{}{zeros}0{}"#, "[".repeat(LEVELS), "]".repeat(LEVELS))
    }),
    ("levels without an end", |bytes| format!(r#""n":{}"#, "[".repeat(bytes - 10))),
    ("one long number", |bytes| format!(r#""n":{}"#, "7".repeat(bytes - 10))),
    ("many numbers", |bytes| format!(r#""n":[{}]"#, fill_up_to(bytes - 20, |index| format!("{index}e-99")))),
    ("escapes", |bytes| format!(r#""n":"{}""#, r"\u0041\ud83d\ude00".repeat((bytes - 10) / 18))),
    ("quotes and brackets", |bytes| format!(r#""n":"{}""#, r#"\\\"[{"#.repeat((bytes - 10) / 6))),
    ("white space", |bytes| format!(r#""n":{}0"#, " ".repeat(bytes - 10))),
    ("empty objects", |bytes| format!(r#""n":[{}]"#, fill_up_to(bytes - 20, |_| "{}".to_owned()))),
];

/// Replaces a document's `$` with hostile members. The result has at most this many bytes.
pub(super) fn fill_document(template: &str, members: MakeMembers, bytes: usize) -> String {
    let document = template.replacen('$', &members(bytes - template.len()), 1);
    assert!(document.len() <= bytes, "{} bytes", document.len());
    document
}
