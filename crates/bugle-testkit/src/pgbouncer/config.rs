//! The files of one pgbouncer.

use super::program::PREPARED_STATEMENTS_SINCE;
use anyhow::Context as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What a URL says of a server: `scheme://user:password@host:port/database?query`.
#[derive(Debug, PartialEq)]
pub(super) struct Server {
    /// As it stands in the URL, for another one.
    credentials: String,
    tail: String,
    user: String,
    password: String,
    host: String,
    port: u16,
    database: String,
}

impl Server {
    pub(super) fn parse(url: &str) -> anyhow::Result<Self> {
        Self::read(url).context("pgbouncer needs a URL like postgres://user:password@host:port/database")
    }

    fn read(url: &str) -> Option<Self> {
        let (_, rest) = url.split_once("://")?;
        let (credentials, rest) = rest.rsplit_once('@')?;
        let (user, password) = credentials.split_once(':')?;
        let (address, tail) = rest.split_once('/')?;
        let (host, port) = address.rsplit_once(':')?;
        let database = tail.split_once('?').map_or(tail, |(database, _)| database);
        Some(Self {
            credentials: credentials.to_owned(),
            tail: tail.to_owned(),
            user: decoded(user)?,
            password: decoded(password)?,
            host: host.to_owned(),
            port: port.parse().ok()?,
            database: decoded(database)?,
        })
    }

    /// The same database through a pooler on this port.
    pub(super) fn url_on(&self, port: u16) -> String {
        format!("postgres://{}@127.0.0.1:{port}/{}", self.credentials, self.tail)
    }
}

/// Percent signs resolved.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        bytes.push(if *first == b'%' {
            let (code, others) = others.split_at_checked(2)?;
            rest = others;
            u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()?
        } else {
            *first
        });
    }
    String::from_utf8(bytes).ok()
}

/// Writes the files and returns the one to start with.
pub(super) fn write(
    folder: &Path,
    server: &Server,
    port: u16,
    server_connections: u32,
    version: (u32, u32),
) -> anyhow::Result<PathBuf> {
    let users = folder.join("users");
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    // In plain: from a SCRAM secret pgbouncer could not log in to the server.
    private(&users, &format!("{} {}\n", quoted(&server.user), quoted(&server.password)))?;

    let Server { host, port: server_port, database, .. } = server;
    let mut ini = format!(
        "[databases]\n\
         {database} = host={host} port={server_port}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = scram-sha-256\n\
         auth_file = {}\n\
         pool_mode = transaction\n\
         default_pool_size = {server_connections}\n\
         max_client_conn = 500\n\
         ignore_startup_parameters = extra_float_digits\n",
        users.display(),
    );
    if version >= PREPARED_STATEMENTS_SINCE {
        ini.push_str("max_prepared_statements = 200\n"); // 0, that is off, by default before 1.24
    }
    if rustix::process::geteuid().is_root() {
        ini.push_str("user = nobody\n"); // it refuses to be root, and changes by itself
    }
    let file = folder.join("pgbouncer.ini");
    private(&file, &ini)?;
    Ok(file)
}

fn private(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::{Server, decoded};

    #[test]
    fn a_url_leads_to_the_same_database_through_the_pooler() {
        let server = Server::parse("postgres://u:p%40%2F@h:5432/d?sslmode=disable").unwrap();
        assert_eq!((server.user.as_str(), server.password.as_str()), ("u", "p@/"));
        assert_eq!((server.host.as_str(), server.port, server.database.as_str()), ("h", 5432, "d"));
        assert_eq!(server.url_on(6432), "postgres://u:p%40%2F@127.0.0.1:6432/d?sslmode=disable");
        assert!(Server::parse("postgres:///d").is_err());
    }

    #[test]
    fn half_a_percent_code_is_none() {
        assert_eq!(decoded("a%2"), None);
        assert_eq!(decoded("a%zz"), None);
    }
}
