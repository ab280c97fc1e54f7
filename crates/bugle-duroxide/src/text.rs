//! Text of users in columns. PostgreSQL keeps every character but the one with number 0: where that may occur it is written otherwise.

use std::borrow::Cow;

/// A character of private use that introduces a replacement; itself it is replaced as well.
const MARK: char = '\u{e000}';

/// Text as a column can keep it.
pub(crate) fn write(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return text.into();
    }
    text.replace(MARK, "\u{e000}1").replace('\0', "\u{e000}0").into()
}

/// The text that was written.
pub(crate) fn read(text: String) -> String {
    if !text.contains(MARK) {
        return text;
    }
    text.replace("\u{e000}0", "\0").replace("\u{e000}1", "\u{e000}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_read_as_it_was_written() {
        for text in
            ["", "plain é", "a\0b", "\0", "\u{e000}", "\u{e000}0", "\u{e000}1", "\u{e000}\0\u{e000}1\0"]
        {
            let written = write(text);
            assert!(!written.contains('\0'));
            assert_eq!(read(written.into_owned()), text);
        }
    }
}
