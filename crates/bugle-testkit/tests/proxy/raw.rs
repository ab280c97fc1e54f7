//! A client without a driver.
use bugle_testkit::proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Just enough of the protocol to see what a driver hides.
pub(crate) struct RawSession {
    stream: TcpStream,
    /// The process and the secret that a request to cancel must name.
    pub(crate) key: Vec<u8>,
}

impl RawSession {
    pub(crate) async fn open(proxy: &Proxy, application: &str) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(proxy.addr()).await?;
        stream.write_all(&[8_u32.to_be_bytes(), 80_877_104_u32.to_be_bytes()].concat()).await?;
        assert_eq!(stream.read_u8().await?, b'N', "no GSSAPI encryption");
        let body = format!("user\0bugle\0application_name\0{application}\0\0");
        stream.write_u32(u32::try_from(body.len() + 8)?).await?;
        stream.write_u32(196_608).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut session = Self { stream, key: Vec::new() };
        let greeting = session.read_until(b'Z').await?;
        session.key =
            greeting.into_iter().find(|(tag, _)| *tag == b'K').map(|(_, body)| body).unwrap_or_default();
        Ok(session)
    }

    pub(crate) fn message(tag: u8, body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let length = u32::try_from(body.len() + 4)?;
        Ok([&[tag][..], &length.to_be_bytes(), body].concat())
    }

    pub(crate) async fn send(&mut self, messages: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(messages).await?)
    }

    /// Reads messages up to one with this tag.
    pub(crate) async fn read_until(&mut self, last: u8) -> anyhow::Result<Vec<(u8, Vec<u8>)>> {
        let mut messages = Vec::new();
        loop {
            let tag = self.stream.read_u8().await?;
            let mut body = vec![0; usize::try_from(self.stream.read_u32().await?)? - 4];
            self.stream.read_exact(&mut body).await?;
            messages.push((tag, body));
            if tag == last {
                return Ok(messages);
            }
        }
    }
}
