//! Text with characters that mislead terminals, pages or readers.

/// Returns a string with one character of each harmful kind, and its rendering in all views.
pub fn hostile_text() -> (String, String) {
    let text = format!(
        "a{}\u{9b}1m\u{7f}\u{200b}\u{ad}\u{61c}\u{2028}\u{202e}\u{2066}\u{feff}\u{e0041}\u{fe01}\u{3164}z",
        "\u{301}".repeat(300)
    );
    let shown = format!(
        r"a{}[+296 marks]\u{{9b}}1m\u{{7f}}\u{{200b}}\u{{ad}}\u{{61c}}\u{{2028}}\u{{202e}}\u{{2066}}\u{{feff}}\u{{e0041}}\u{{fe01}}\u{{3164}}z",
        "\u{301}".repeat(4)
    );
    (text, shown)
}
