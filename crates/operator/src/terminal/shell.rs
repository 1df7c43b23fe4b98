//! Commands to copy into a shell.

/// Quotes a word for a POSIX shell: in single quotes, unless it contains only letters, digits and `-_./:,=@+`.
#[must_use]
pub fn quote_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=@+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
