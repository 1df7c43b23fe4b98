//! Secrets planted in the inputs, and the search for them in the programs' output.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The length of the prefix that is searched for, because a truncated secret is also a leak.
const HEAD_BYTES: usize = 12;

/// Strings that must not appear in any output.
#[derive(Clone, Debug, Default)]
pub struct Canaries(Vec<(&'static str, Vec<String>)>);

impl Canaries {
    /// Plants these strings. They consist of letters and digits, which no text encoding changes, and have distinct
    /// prefixes.
    ///
    /// # Panics
    /// If a string is too short, has other characters, or shares its prefix with another.
    #[must_use]
    pub fn new(texts: impl IntoIterator<Item = &'static str>) -> Self {
        let mut canaries = Vec::new();
        for text in texts {
            assert!(
                text.len() >= HEAD_BYTES && text.bytes().all(|byte| byte.is_ascii_alphanumeric()),
                "{text}"
            );
            let head = &text[..HEAD_BYTES];
            assert!(!canaries.iter().any(|(other, _): &(&str, _)| other.starts_with(head)), "{text}");
            canaries.push((text, disguised_forms(head)));
        }
        Self(canaries)
    }

    /// Returns the canaries in a string: verbatim, truncated, in base64, in hexadecimal, or as a list of bytes.
    #[must_use]
    pub fn find_in(&self, text: &str) -> Vec<&'static str> {
        let lower = text.to_lowercase();
        let holds = |disguises: &[String]| {
            disguises
                .iter()
                .any(|disguise| text.contains(disguise) || lower.contains(&disguise.to_lowercase()))
        };
        self.0.iter().filter(|(_, disguises)| holds(disguises)).map(|(canary, _)| *canary).collect()
    }

    /// Asserts that `text` contains no canary.
    ///
    /// # Panics
    /// If a line of `text` contains a canary; the message shows the line.
    pub fn assert_absent(&self, place: &str, text: &str) {
        for line in text.lines() {
            let found = self.find_in(line);
            assert!(found.is_empty(), "{found:?} in {place}: {line}");
        }
    }
}

fn disguised_forms(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let list = |format: fn(&u8) -> String, separator: &str| {
        bytes.iter().map(format).collect::<Vec<_>>().join(separator)
    };
    let mut disguises = vec![
        text.to_owned(),
        list(|byte| format!("{byte:02x}"), ""),
        list(|byte| format!("{byte}"), ", "),
        list(|byte| format!("{byte}"), ","),
    ];
    // Preceding bytes shift the base64 in one of three ways. Characters shared with neighboring bytes are cut off.
    for before in 0..3 {
        let shifted = [vec![0; before], bytes.to_vec()].concat();
        let encoded = STANDARD.encode(&shifted);
        disguises.push(encoded[(before * 8).div_ceil(6)..shifted.len() * 8 / 6].to_owned());
    }
    disguises
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &str = "Wq7bodyK2vXt9Lm3";

    #[test]
    fn a_planted_leak_is_found_in_every_disguise() {
        let canaries = Canaries::new([CANARY, "Jz4otherH8sRe1Pd"]);
        let json = serde_json::json!({ "inner": serde_json::json!({ "a": CANARY }).to_string() });
        for text in [
            CANARY.to_owned(),
            CANARY.to_uppercase(),
            format!("before{CANARY}after"),
            CANARY[..HEAD_BYTES].to_owned(),
            json.to_string(),
            format!("{:?}", Some(CANARY)),
            format!("{:?}", CANARY.as_bytes()),
            serde_json::to_string(CANARY.as_bytes()).unwrap(),
            STANDARD.encode(CANARY),
            STANDARD.encode(format!("user:{CANARY}")),
            STANDARD.encode(format!("{{\"a\":\"{CANARY}\"}}")),
            CANARY.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ] {
            assert_eq!(canaries.find_in(&text), [CANARY], "{text}");
        }
    }

    #[test]
    fn no_leak_is_found_in_clean_text() {
        let canaries = Canaries::new([CANARY]);
        assert!(canaries.find_in("").is_empty());
        assert!(canaries.find_in(&STANDARD.encode("Wq7body")).is_empty());
        canaries.assert_absent("a log", "{\"event\":\"processed\"}\nWq7body");
    }
}
