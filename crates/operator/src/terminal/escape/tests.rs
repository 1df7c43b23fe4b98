use proptest::prelude::*;
use proptest::sample::select;
use redeliver_testing::hostile::hostile_text;

use super::*;

#[test]
fn cursor_and_direction_controls_and_invisible_characters_are_escaped() {
    let (text, shown) = hostile_text();
    assert_eq!(escape_line(&text), shown);
    assert_eq!(escape_line("\u{1b}[31m\u{0}"), r"\u{1b}[31m\u{0}");
    assert_eq!(escape_line("a\nb\tc\r"), r"a\nb\tc\r");
    assert_eq!(escape_lines("a\nb\tc\r\u{202e}"), "a\nb\tc\\r\\u{202e}");
    assert_eq!(escape_line("Ärger 😀 — fin"), "Ärger 😀 — fin");
    assert_eq!(
        escape_line("e\u{301}\u{301}\u{301}\u{301}\u{301}."),
        "e\u{301}\u{301}\u{301}\u{301}[+1 mark]."
    );
}

#[test]
fn text_in_the_worlds_scripts_and_emoji_are_not_escaped() {
    for text in [
        "e\u{301}te\u{301} été",                       // French, decomposed and composed
        "Vie\u{302}\u{323}t Nam, tie\u{302}\u{301}ng", // Vietnamese, decomposed
        "क्षत्रिय ज़िंदगी हिन्दी",                          // Hindi
        "क्\u{200d}ष र्\u{200d}क श्री\u{200c}".trim_end_matches('\u{200c}'), // half forms
        "ক্\u{200c}ষ",                                  // Bengali, a conjunct kept apart
        "مُحَمَّدٌ العَرَبِيَّةُ",                                // Arabic with its vowels
        "می\u{200c}خواهم خانه\u{200c}ها",              // Persian
        "בְּרֵאשִׁ֖ית בָּרָ֣א אֱלֹהִ֑ים",                            // Hebrew with points and accents
        "བརྒྱུད་ཧཱུྃ",                                       // Tibetan
        "น้ำที่นี่",                                        // Thai
        "한국어 \u{1112}\u{1161}\u{11ab}",             // Korean, composed and decomposed
        "葛\u{e0100}城 神\u{fe00}",                    // Japanese with variants of its characters
        "👨\u{200d}👩\u{200d}👧\u{200d}👦 👩🏽\u{200d}🚒 🏳\u{fe0f}\u{200d}🌈 ❤\u{fe0f}\u{200d}🔥",
        "1\u{fe0f}\u{20e3} ☎\u{fe0e} 🇺🇳 ™\u{fe0f}",
    ] {
        assert_eq!(escape_line(text), text, "{}", text.escape_unicode());
    }
}

#[test]
fn joiners_and_selectors_without_effect_are_escaped() {
    for (text, shown) in [
        ("pay\u{200d}ment\u{200c}s", r"pay\u{200d}ment\u{200c}s"),
        ("😀\u{200d}\u{200d}😀", r"😀\u{200d}\u{200d}😀"),
        ("کار\u{200c}ها", r"کار\u{200c}ها"), // the letter before it never joins
        ("7\u{fe0f}7", r"7\u{fe0f}7"),
        ("😀\u{fe0f}\u{fe0f}", "😀\u{fe0f}\\u{fe0f}"),
        ("😀\u{e0100}\u{e0101}", r"😀\u{e0100}\u{e0101}"),
        ("\u{fe0f}\u{200d}", r"\u{fe0f}\u{200d}"),
        ("क्\u{200d}", r"क्\u{200d}"),
    ] {
        assert_eq!(escape_line(text), shown, "{}", text.escape_unicode());
    }
}

#[test]
fn escaped_json_keeps_its_meaning_and_hides_nothing() {
    let (text, _) = hostile_text();
    let json = serde_json::to_string_pretty(&[&text, "\u{e0041}", "é 👩\u{200d}🚒"]).unwrap();
    let safe = escape_json(&json);
    assert_eq!(
        serde_json::from_str::<Vec<String>>(&safe).unwrap(),
        serde_json::from_str::<Vec<String>>(&json).unwrap()
    );
    assert_eq!(escape_lines(&safe), safe);
    for part in
        [r"\u009b1m\u007f\u200b\u00ad\u061c\u2028\u202e", "\\udb40\\udc41\",\n", "\"é 👩\u{200d}🚒\"\n"]
    {
        assert!(safe.contains(part), "{part} in {safe}");
    }
}

/// Generates text from characters that attackers use and characters from many languages.
fn any_text() -> impl Strategy<Value = String> {
    const PARTS: [&str; 28] = [
        "a",
        "1",
        " ",
        "\n",
        "\t",
        "\r",
        "\u{0}",
        "\u{1b}",
        "\u{85}",
        "\u{301}",
        "\u{20e3}",
        "\u{93f}",
        "\u{94d}",
        "क",
        "م",
        "ر",
        "\u{64e}",
        "\u{200b}",
        "\u{200c}",
        "\u{200d}",
        "\u{202e}",
        "\u{fe0f}",
        "\u{e0100}",
        "\u{e0001}",
        "👩",
        "🏽",
        "葛",
        "[+1 mark]",
    ];
    prop_oneof![
        3 => prop::collection::vec(select(&PARTS[..]), 0..40).prop_map(|parts| parts.concat()),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn escaped_text_has_no_hidden_characters_or_long_stacks_of_marks(text in any_text()) {
        let shown = escape_line(&text);
        let mut marks = 0;
        for (character, next) in shown.chars().zip(shown.chars().skip(1).map(Some).chain([None])) {
            let category = CodePointMapData::<GeneralCategory>::new().get(character);
            let is_selector = matches!(character, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
            // Joiners remain only before a letter or an emoji that they affect, and selectors only after their
            // character.
            let is_joiner = matches!(character, '\u{200c}' | '\u{200d}');
            prop_assert!(!is_joiner || next.is_some_and(|next| next.is_alphabetic() || is_pictographic(next)));
            prop_assert!(is_joiner || is_selector || !is_hidden(character, category), "{}", character.escape_unicode());
            if GeneralCategoryGroup::Mark.contains(category) {
                marks += 1;
            } else if !is_joiner {
                marks = 0;
            }
            prop_assert!(marks <= MARKS_MAX, "{}", shown.escape_unicode());
        }
        prop_assert_eq!(escape_line(&shown), shown.clone(), "escaping is idempotent");
        let within = format!("<td>{shown}</td>");
        prop_assert_eq!(escape_line(&format!("<td>{text}</td>")), within, "escaping works the same in markup");
        let json = serde_json::to_string(&text).unwrap();
        let safe = escape_json(&json);
        prop_assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
        prop_assert_eq!(escape_line(&safe), safe);
    }
}
