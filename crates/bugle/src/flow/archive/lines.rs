//! A file of lines, read one by one.

use super::Cause;
use super::format::{AnyHeader, FORMAT, Header, Line, WHAT};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// More than any line that is written: a definition, or a value with what belongs to it.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

const CUT_OFF: &str = "the file was cut off: export it again, or find the whole of it";

/// The lines of an export.
pub(super) struct Lines<'a, R> {
    from: &'a mut R,
    bytes: Vec<u8>,
    /// The number of the line that was read last, from 1.
    pub(super) number: u64,
}

impl<'a, R: AsyncBufRead + Unpin> Lines<'a, R> {
    pub(super) fn new(from: &'a mut R) -> Self {
        Self { from, bytes: Vec::new(), number: 0 }
    }

    /// The header, which says whether this is such a file at all.
    pub(super) async fn header(&mut self) -> Result<Header, Cause> {
        const NO_EXPORT: &str = "import what `bugle flow export` wrote";
        if !self.read().await? {
            return Err(Cause::line("the file is empty", NO_EXPORT));
        }
        let known: AnyHeader = serde_json::from_slice(&self.bytes).map_err(|_| {
            let begin: String = String::from_utf8_lossy(&self.bytes).chars().take(60).collect();
            Cause::line(format!("the file begins with {:?}", begin.trim_end()), NO_EXPORT)
        })?;
        if known.header.what != WHAT {
            return Err(Cause::line(format!("the file has {:?}", known.header.what), NO_EXPORT));
        }
        if known.header.format != FORMAT {
            return Err(Cause::line(
                format!(
                    "the file has format {}, and this version of Bugle knows {FORMAT}",
                    known.header.format
                ),
                "import it with the version that wrote it, or export it again with this one",
            ));
        }
        match self.parse()? {
            Line::Header(header) => Ok(header),
            other => Err(Cause::line(format!("the file begins with {}", other.called()), NO_EXPORT)),
        }
    }

    /// The next line. There is one: the last is the end of the file, and nobody asks behind it.
    pub(super) async fn next(&mut self) -> Result<Line, Cause> {
        if self.read().await? {
            self.parse()
        } else {
            Err(Cause::line("the file ends before its end", CUT_OFF))
        }
    }

    /// Refuses anything behind the end.
    pub(super) async fn is_over(&mut self) -> Result<(), Cause> {
        if self.read().await? {
            return Err(Cause::line("the file goes on behind its end", "import one file after the other"));
        }
        Ok(())
    }

    fn parse(&self) -> Result<Line, Cause> {
        if self.bytes.last() != Some(&b'\n') {
            return Err(Cause::line("the file ends in the middle of a line", CUT_OFF));
        }
        serde_json::from_slice(&self.bytes)
            .map_err(|error| Cause::line(format!("it is no line of an export: {error}"), "export it anew"))
    }

    /// False: there is none. Never more in memory than the longest line that may be.
    async fn read(&mut self) -> Result<bool, Cause> {
        self.bytes.clear();
        self.number += 1;
        loop {
            let there = self.from.fill_buf().await?;
            if there.is_empty() {
                return Ok(!self.bytes.is_empty());
            }
            let end = there.iter().position(|byte| *byte == b'\n').map(|place| place + 1);
            let taken = end.unwrap_or(there.len());
            if self.bytes.len() + taken > LINE_BYTES_MAX {
                return Err(Cause::line(
                    format!("it is longer than {LINE_BYTES_MAX} bytes"),
                    "import what `bugle flow export` wrote",
                ));
            }
            self.bytes.extend_from_slice(&there[..taken]);
            self.from.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}
