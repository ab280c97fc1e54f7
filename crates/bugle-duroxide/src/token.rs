//! Lock tokens: what they open, and the fencing value. With the name in it a row is found by its key, and no index on tokens is kept up.

use duroxide::providers::ProviderError;

/// Length of a UUID in text.
const FENCE_BYTES: usize = 36;

/// A token that opens a turn (the name is its instance's) or work (its number).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'t, N> {
    pub(crate) name: N,
    /// The fencing value, as PostgreSQL writes it.
    pub(crate) fence: &'t str,
}

impl<'t> Token<'t, &'t str> {
    /// Reads the token of a turn.
    pub(crate) fn turn(operation: &str, text: &'t str) -> Result<Self, ProviderError> {
        let (fence, name) = split(text).ok_or_else(|| invalid(operation))?;
        Ok(Self { name, fence })
    }
}

impl<'t> Token<'t, i64> {
    /// Reads the token of work.
    pub(crate) fn work(operation: &str, text: &'t str) -> Result<Self, ProviderError> {
        let (fence, name) = split(text).ok_or_else(|| invalid(operation))?;
        Ok(Self { name: name.parse().map_err(|_| invalid(operation))?, fence })
    }
}

/// Writes a token.
pub(crate) fn write(name: impl std::fmt::Display, fence: &str) -> String {
    format!("{fence}:{name}")
}

fn split(text: &str) -> Option<(&str, &str)> {
    let (fence, name) = text.split_once(':')?;
    let legal = fence.len() == FENCE_BYTES && fence.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    legal.then_some((fence, name))
}

fn invalid(operation: &str) -> ProviderError {
    ProviderError::permanent(operation, "Invalid lock token")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FENCE: &str = "6f1f2d3c-0000-4000-8000-0123456789ab";

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let text = write("order:1 é", FENCE);
        assert_eq!(Token::turn("t", &text).unwrap(), Token { name: "order:1 é", fence: FENCE });
        assert_eq!(Token::work("t", &write(7, FENCE)).unwrap(), Token { name: 7, fence: FENCE });
    }

    #[test]
    fn what_is_no_token_is_refused_for_good() {
        for text in ["", "invalid-token", ":", "x:y", &FENCE[1..], &write("seven", &FENCE[1..])] {
            assert!(!Token::turn("t", text).unwrap_err().is_retryable(), "{text}");
        }
        assert!(!Token::work("t", &write("seven", FENCE)).unwrap_err().is_retryable());
    }
}
