//! Tests with the policies in `schemas/vectors/policies.json`, which the stack's tests also use.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::*;

#[derive(Deserialize)]
struct Vector {
    name: String,
    document: Option<Value>,
    text: Option<String>,
    #[serde(flatten)]
    verdict: Verdict,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Accepted { means: Value },
    Refused(BTreeSet<String>),
}

#[test]
fn policy_vectors_parse_or_fail_as_listed() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../../../schemas/vectors/policies.json")).unwrap();
    for Vector { name, document, text, verdict } in vectors {
        let text = text.unwrap_or_else(|| document.unwrap().to_string());
        match verdict {
            Verdict::Accepted { means } => assert_eq!(parse(&text), parse(&means.to_string()), "{name}"),
            Verdict::Refused(pointers) => {
                assert_eq!(
                    violation_pointers(&text).into_iter().collect::<BTreeSet<_>>(),
                    pointers,
                    "{name}"
                );
            }
        }
    }
}
