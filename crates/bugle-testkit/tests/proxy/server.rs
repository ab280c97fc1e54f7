//! A throw-away PostgreSQL for this test binary.
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, ensure};

/// Runs the server until its standard input ends, which is when the test process does, however it does.
const SCRIPT: &str = r#"
trap '' INT TERM
for bin in /usr/lib/postgresql/*/bin; do PATH=$bin:$PATH; done
dir=$(mktemp -d) || exit 1
initdb -D "$dir/data" -U postgres -A trust -E UTF8 --no-locale --no-sync >"$dir/initdb.log" 2>&1 &&
  pg_ctl -D "$dir/data" -l "$dir/server.log" -w start -o \
    "-p $1 -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off" >"$dir/pg_ctl.log" 2>&1 &&
  echo ready && cat >/dev/null
pg_ctl -D "$dir/data" -m immediate stop >/dev/null 2>&1
rm -rf "$dir"
"#;

struct Server {
    addr: SocketAddr,
    _lifeline: ChildStdin,
}

/// The address of the one server of this process, started by whoever asks first.
pub(crate) fn addr() -> anyhow::Result<SocketAddr> {
    static SERVER: OnceLock<anyhow::Result<Server>> = OnceLock::new();
    match SERVER.get_or_init(start) {
        Ok(server) => Ok(server.addr),
        Err(error) => Err(anyhow::anyhow!("PostgreSQL did not start: {error:#}")),
    }
}

fn start() -> anyhow::Result<Server> {
    let addr = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh", &addr.port().to_string()]).current_dir("/");
    if rustix::process::getuid().is_root() {
        command.uid(id_of_postgres("-u")?).gid(id_of_postgres("-g")?);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let lifeline = child.stdin.take().context("no standard input")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
    ensure!(line.trim() == "ready", "initdb or pg_ctl failed");
    Ok(Server { addr, _lifeline: lifeline })
}

/// PostgreSQL refuses to run as root.
fn id_of_postgres(which: &str) -> anyhow::Result<u32> {
    let output = Command::new("id").args([which, "postgres"]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
