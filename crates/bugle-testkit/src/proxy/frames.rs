//! Cutting a byte stream into messages without keeping more of it than is needed.
use std::io;
use std::ops::Range;

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is read at a time.
pub(super) const READ_BYTES: usize = 16 * 1024;
/// How much of a message is collected before it is judged; the rest of it streams through.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// A message's tag and length.
const HEADER_BYTES: usize = 5;

/// A part of a message that lies in the buffer.
pub(super) struct Piece {
    pub(super) tag: u8,
    /// It begins the message (and holds all of its head).
    pub(super) first: bool,
    /// It ends the message.
    pub(super) last: bool,
    range: Range<usize>,
}

/// The messages of one direction, after the startup message.
pub(super) struct Frames {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were handed out.
    taken: usize,
    /// Bytes of the current message that are still to come.
    rest: usize,
    tag: u8,
    needs_head: fn(u8) -> bool,
}

impl Frames {
    /// Messages whose tag `needs_head` are handed out only when their first 64 kB are there.
    pub(super) fn new(needs_head: fn(u8) -> bool) -> Self {
        Self { buffer: Vec::new(), taken: 0, rest: 0, tag: 0, needs_head }
    }

    /// The next piece that can be handed out without reading more.
    pub(super) fn take(&mut self) -> io::Result<Option<Piece>> {
        let available = self.buffer.len() - self.taken;
        let first = self.rest == 0;
        if first {
            let Some(header) = self.buffer.get(self.taken..self.taken + HEADER_BYTES) else {
                return Ok(None);
            };
            let (tag, total) = (header[0], message_bytes(header)?);
            let wanted = if (self.needs_head)(tag) { total.min(HEAD_BYTES_MAX) } else { HEADER_BYTES };
            if available < wanted {
                return Ok(None);
            }
            (self.tag, self.rest) = (tag, total);
        }
        let length = available.min(self.rest);
        if length == 0 {
            return Ok(None);
        }
        let range = self.taken..self.taken + length;
        self.taken += length;
        self.rest -= length;
        Ok(Some(Piece { tag: self.tag, first, last: self.rest == 0, range }))
    }

    /// The bytes of `piece`; only until the next [`fill`](Self::fill).
    pub(super) fn bytes(&self, piece: &Piece) -> &[u8] {
        &self.buffer[piece.range.clone()]
    }

    /// What follows the header in `piece`, which must be a first one.
    pub(super) fn body(&self, piece: &Piece) -> &[u8] {
        &self.bytes(piece)[HEADER_BYTES..]
    }

    /// What is left when the stream ends inside a message.
    pub(super) fn remainder(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// Reads more; 0 is the end of the stream.
    pub(super) async fn fill(&mut self, source: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.reserve(READ_BYTES);
        source.read_buf(&mut self.buffer).await
    }
}

/// The length of a message with its tag. The length on the wire counts itself, but not the tag.
fn message_bytes(header: &[u8]) -> io::Result<usize> {
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
    match usize::try_from(length) {
        Ok(length) if length >= 4 => Ok(length + 1),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[tag][..], &length.to_be_bytes(), body].concat()
    }

    /// Feeds `bytes` in reads of `step` and returns each message as it was put together again.
    async fn messages(bytes: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut frames = Frames::new(|tag| tag == b'Q');
        let mut seen: Vec<Vec<u8>> = Vec::new();
        for mut chunk in bytes.chunks(step) {
            while !chunk.is_empty() {
                frames.fill(&mut chunk).await.unwrap();
            }
            while let Some(piece) = frames.take().unwrap() {
                if piece.first {
                    seen.push(Vec::new());
                }
                seen.last_mut().unwrap().extend(frames.bytes(&piece));
            }
        }
        seen
    }

    #[tokio::test]
    async fn messages_survive_being_split_anywhere() {
        let expected = [message(b'Q', b"SELECT 1\0"), message(b'S', b""), message(b'd', &[7; 300])];
        for step in 1..=40 {
            assert_eq!(messages(&expected.concat(), step).await, expected, "reads of {step} bytes");
        }
    }

    #[tokio::test]
    async fn a_big_message_is_not_kept() {
        let big = message(b'Q', &vec![b'x'; 3 << 20]);
        let mut frames = Frames::new(|tag| tag == b'Q');
        let mut source = &big[..];
        let mut bytes = 0;
        while frames.fill(&mut source).await.unwrap() > 0 {
            while let Some(piece) = frames.take().unwrap() {
                bytes += frames.bytes(&piece).len();
            }
            assert!(frames.buffer.capacity() <= 2 * (HEAD_BYTES_MAX + READ_BYTES));
        }
        assert_eq!(bytes, big.len());
    }

    #[tokio::test]
    async fn an_impossible_length_is_an_error() {
        let mut frames = Frames::new(|_| false);
        frames.fill(&mut &b"Q\0\0\0\x03"[..]).await.unwrap();
        assert!(frames.take().is_err());
    }
}
