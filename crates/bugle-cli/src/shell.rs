//! Words for a shell, in commands that an answer proposes.

/// As a shell reads it back.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "._-:/@%+,=".contains(c);
    if name.chars().all(plain) && !name.starts_with('-') {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_a_shell_needs_it() {
        assert_eq!(
            ["mail", "e mail", "it's", "$HOME"].map(quoted),
            ["mail", "'e mail'", r"'it'\''s'", "'$HOME'"]
        );
    }
}
