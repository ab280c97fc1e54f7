//! What a client sends before ordinary messages begin.
use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;
/// PostgreSQL's own limit.
const STARTUP_BYTES_MAX: usize = 10_000;

/// The first packet that is for PostgreSQL: a startup message, or a request to cancel another session's query.
pub(super) struct Startup {
    pub(super) bytes: Vec<u8>,
    /// Empty if the client gave none.
    pub(super) application: String,
}

/// Reads up to the startup message, refusing encryption on the way: the protocol must stay readable.
///
/// `None` if the client leaves before that.
pub(super) async fn read(client: &mut TcpStream) -> io::Result<Option<Startup>> {
    loop {
        let mut length = [0; 4];
        match client.read_exact(&mut length).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        };
        let total = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if !(8..=STARTUP_BYTES_MAX).contains(&total) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a startup of {total} bytes")));
        }
        let mut bytes = vec![0; total];
        bytes[..4].copy_from_slice(&length);
        client.read_exact(&mut bytes[4..]).await?;
        let code = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        match code {
            SSL_REQUEST | GSSENC_REQUEST => client.write_all(b"N").await?,
            CANCEL_REQUEST => return Ok(Some(Startup { bytes, application: String::new() })),
            _ => {
                let application = parameter(&bytes[8..], "application_name").unwrap_or_default();
                return Ok(Some(Startup { bytes, application }));
            }
        }
    }
}

/// Looks a name up in the zero-terminated names and values of a startup message.
fn parameter(body: &[u8], wanted: &str) -> Option<String> {
    let mut texts = body.split(|byte| *byte == 0);
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        if name == wanted.as_bytes() {
            return Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_name_is_found_among_the_parameters() {
        let body = b"user\0application_name\0application_name\0worker 1\0\0";
        assert_eq!(parameter(body, "application_name").as_deref(), Some("worker 1"));
        assert_eq!(parameter(b"user\0me\0\0", "application_name"), None);
    }
}
