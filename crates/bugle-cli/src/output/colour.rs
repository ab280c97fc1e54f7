//! Colours of words in an answer. What they say stands there in words as well.

/// One of those that every terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
    Grey,
}

impl Colour {
    pub(super) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Blue => 34,
            Self::Magenta => 35,
            Self::Cyan => 36,
            Self::Grey => 90,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Not when the environment says `NO_COLOR` (no-color.org), nor on a terminal that knows none.
pub(super) fn is_wanted() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
