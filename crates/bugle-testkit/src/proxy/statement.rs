//! Which statements a fault or a gate is meant for.
use std::fmt;
use std::sync::Arc;

/// A predicate on the text of a statement.
///
/// It is asked when a statement is about to *run*: a simple query, or the Bind of a statement prepared
/// earlier (whose text the proxy remembers). Preparing alone is not running.
/// Only the first 64 kB of a text are seen.
#[derive(Clone)]
pub struct Statement {
    name: Arc<str>,
    matches: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Statement {
    /// Every statement.
    #[must_use]
    pub fn any() -> Self {
        Self::matching("any", |_| true)
    }

    /// Statements whose text contains `part`, in this spelling.
    ///
    /// A comment in the SQL is the least ambiguous mark: `/* enqueue */ INSERT ...`.
    #[must_use]
    pub fn contains(part: &str) -> Self {
        let wanted = part.to_owned();
        Self::matching(part, move |sql| sql.contains(&wanted))
    }

    /// `COMMIT` and its synonym `END`, alone or as the first or last statement of a simple query.
    /// A comment in front hides it.
    #[must_use]
    pub fn commit() -> Self {
        Self::matching("commit", is_commit)
    }

    /// Statements for which `matches` says yes; `name` is for reports.
    #[must_use]
    pub fn matching(name: &str, matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { name: name.into(), matches: Arc::new(matches) }
    }

    pub(super) fn covers(&self, sql: &str) -> bool {
        (self.matches)(sql)
    }
}

impl From<&str> for Statement {
    /// Short for [`Statement::contains`].
    fn from(part: &str) -> Self {
        Self::contains(part)
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)
    }
}

/// Only the ends of a script are looked at: the `END;` of a function body lies in between.
fn is_commit(sql: &str) -> bool {
    let mut parts = sql.split(';').map(str::trim).filter(|part| !part.is_empty());
    let first = parts.next();
    let last = parts.next_back();
    [first, last].into_iter().flatten().any(|part| {
        let word = part.split_whitespace().next().unwrap_or_default();
        word.eq_ignore_ascii_case("commit") || word.eq_ignore_ascii_case("end")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_known_in_all_its_spellings() {
        for sql in ["COMMIT", " commit ;", "END", "Commit AND CHAIN", "INSERT INTO t VALUES (1); COMMIT;"] {
            assert!(is_commit(sql), "{sql}");
        }
    }

    #[test]
    fn an_end_inside_a_function_body_is_not_a_commit() {
        for sql in ["", "BEGIN", "DO $$ BEGIN NULL; END; $$", "SELECT 'COMMIT'", "ROLLBACK", "committed"] {
            assert!(!is_commit(sql), "{sql}");
        }
    }
}
