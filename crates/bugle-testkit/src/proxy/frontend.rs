//! Following a client's messages, to know the text of what it is about to run.
use std::collections::HashMap;
use std::sync::Arc;

/// What one connection has prepared and bound so far.
#[derive(Default)]
pub(super) struct Frontend {
    /// Statement name to text: the text travels only once, in Parse.
    statements: HashMap<Vec<u8>, Arc<str>>,
    portals: HashMap<Vec<u8>, Portal>,
}

struct Portal {
    sql: Arc<str>,
    /// Announced at Bind and not executed yet: its first Execute is the same run.
    announced: bool,
}

impl Frontend {
    /// The messages that [`observe`](Self::observe) must see the beginning of.
    pub(super) fn needs(tag: u8) -> bool {
        matches!(tag, b'Q' | b'P' | b'B' | b'E' | b'C')
    }

    /// Messages that PostgreSQL answers with `ReadyForQuery`: Query, Sync, `FunctionCall`.
    pub(super) fn ends_request(tag: u8) -> bool {
        matches!(tag, b'Q' | b'S' | b'F')
    }

    /// Messages that mean nothing to the client before a Sync or Flush follows: nothing is lost by keeping
    /// them until then, and the whole request can be held back.
    pub(super) fn is_part(tag: u8) -> bool {
        matches!(tag, b'P' | b'B' | b'D' | b'E' | b'C')
    }

    /// Takes note of a message and returns the text of the statement that it runs, if it runs one.
    ///
    /// Bind counts as running, not Execute: PostgreSQL takes a query's snapshot at Bind, so a gate at Execute
    /// would be too late.
    pub(super) fn observe(&mut self, tag: u8, body: &[u8]) -> Option<Arc<str>> {
        match tag {
            b'Q' => Some(text(split_text(body).0)),
            b'P' => {
                let (name, rest) = split_text(body);
                self.statements.insert(name.to_vec(), text(split_text(rest).0));
                None
            }
            b'B' => {
                let (portal, rest) = split_text(body);
                let sql = self.statements.get(split_text(rest).0)?.clone();
                self.portals.insert(portal.to_vec(), Portal { sql: sql.clone(), announced: true });
                Some(sql)
            }
            b'E' => {
                let portal = self.portals.get_mut(split_text(body).0)?;
                let first_run = std::mem::take(&mut portal.announced);
                (!first_run).then(|| portal.sql.clone())
            }
            b'C' => {
                self.close(body);
                None
            }
            _ => None,
        }
    }

    fn close(&mut self, body: &[u8]) {
        let Some((kind, name)) = body.split_first() else { return };
        let name = split_text(name).0;
        match kind {
            b'S' => drop(self.statements.remove(name)),
            _ => drop(self.portals.remove(name)),
        }
    }
}

/// Splits off a zero-terminated text; all of it if the head of the message ends first.
fn split_text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simple_query_runs_its_text() {
        assert_eq!(Frontend::default().observe(b'Q', b"COMMIT\0").as_deref(), Some("COMMIT"));
    }

    #[test]
    fn a_prepared_statement_is_known_at_every_bind() {
        let mut frontend = Frontend::default();
        assert_eq!(frontend.observe(b'P', b"s1\0INSERT\0\0\0"), None, "preparing is not running");
        for _ in 0..2 {
            assert_eq!(frontend.observe(b'B', b"\0s1\0\0\0").as_deref(), Some("INSERT"));
            assert_eq!(frontend.observe(b'E', b"\0\0\0\0\0"), None, "the run that Bind announced");
        }
    }

    #[test]
    fn a_portal_executed_again_runs_again() {
        let mut frontend = Frontend::default();
        frontend.observe(b'P', b"s1\0FETCH\0");
        frontend.observe(b'B', b"p1\0s1\0");
        assert_eq!(frontend.observe(b'E', b"p1\0\0\0\0\x01"), None);
        assert_eq!(frontend.observe(b'E', b"p1\0\0\0\0\x01").as_deref(), Some("FETCH"));
    }

    #[test]
    fn a_closed_statement_is_forgotten() {
        let mut frontend = Frontend::default();
        frontend.observe(b'P', b"s1\0SELECT\0");
        frontend.observe(b'C', b"Ss1\0");
        assert_eq!(frontend.observe(b'B', b"\0s1\0"), None);
    }
}
