//! How long a server waits for clients that are slow or silent, and the connection that keeps count of it.

use crate::limits::{ANSWER_WITHIN, BODY_PART_WITHIN, BODY_WITHIN, HEAD_WITHIN};
use axum_server::accept::Accept;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What HTTP/2 begins with. As long as it may still become this, nobody knows yet what is spoken.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a server waits for its clients. None of it is about pops that wait: their clients have said everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the first byte of a connection, and for the whole head of a request; it is also how long a connection may idle between two requests.
    pub head: Duration,
    /// For the next part of a body.
    pub body_part: Duration,
    /// For the whole body.
    pub body: Duration,
    /// For a client that does not read what it is answered.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { head: HEAD_WITHIN, body_part: BODY_PART_WITHIN, body: BODY_WITHIN, answer: ANSWER_WITHIN }
    }
}

/// Accepts connections, and makes each of them [`Attended`].
#[derive(Debug, Clone)]
pub(crate) struct Attend<A> {
    inner: A,
    patience: Patience,
}

impl<A> Attend<A> {
    pub(crate) fn new(inner: A, patience: Patience) -> Self {
        Self { inner, patience }
    }
}

impl<A, I, S> Accept<I, S> for Attend<A>
where
    A: Accept<I, S>,
    A::Future: Send + 'static,
{
    type Stream = Attended<A::Stream>;
    type Service = A::Service;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let (accepting, patience) = (self.inner.accept(stream, service), self.patience);
        Box::pin(async move {
            let (stream, service) = accepting.await?;
            Ok((Attended::new(stream, patience), service))
        })
    }
}

/// A connection that fails when its client does not say at first what it speaks, or does not read.
///
/// The limit on heads does not reach these: it begins when it is known that HTTP/1.1 is spoken, and ends with the head.
pub(crate) struct Attended<S> {
    stream: S,
    greeting: Option<Greeting>,
    answer_within: Duration,
    /// While the client does not read: until when that is borne.
    stuck: Option<Pin<Box<Sleep>>>,
}

/// The first bytes of a connection.
struct Greeting {
    /// How much of the preface has come.
    seen: usize,
    ends: Pin<Box<Sleep>>,
}

impl Greeting {
    /// Is it known, with these bytes, what is spoken?
    fn is_over(&mut self, bytes: &[u8]) -> bool {
        let rest = &PREFACE[self.seen..];
        self.seen += bytes.len().min(rest.len());
        bytes.is_empty() || bytes.len() >= rest.len() || !rest.starts_with(bytes)
    }
}

impl<S> Attended<S> {
    fn new(stream: S, patience: Patience) -> Self {
        let greeting = Some(Greeting { seen: 0, ends: Box::pin(sleep(patience.head)) });
        Self { stream, greeting, answer_within: patience.answer, stuck: None }
    }

    /// Passes on what became of a write, unless nothing has been read for too long.
    fn written<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let within = self.answer_within;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(within)));
        ready!(stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Attended<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Some(greeting) = &mut self.greeting else { return read };
        if read.is_ready() {
            if greeting.is_over(&buffer.filled()[before..]) {
                self.greeting = None;
            }
            return read;
        }
        ready!(greeting.ends.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client says nothing")))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Attended<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.written(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.written(closed, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_greeting_is_over_as_soon_as_it_tells_what_is_spoken() {
        let greeting = || Greeting { seen: 0, ends: Box::pin(sleep(Duration::ZERO)) };
        assert!(greeting().is_over(b"GET / HTTP/1.1\r\n"));
        assert!(greeting().is_over(b""), "the client is gone");
        let mut slow = greeting();
        assert!(!slow.is_over(b"P") && !slow.is_over(b"R"));
        assert!(slow.is_over(b"OPFIND"));
        let mut second = greeting();
        assert!(!second.is_over(&PREFACE[..10]) && !second.is_over(&PREFACE[10..23]));
        assert!(second.is_over(&PREFACE[23..]));
        assert!(greeting().is_over(&[PREFACE, b"more"].concat()));
    }
}
