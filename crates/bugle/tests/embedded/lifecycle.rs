//! Start, use, stop.

use super::{alive, ask, home, run};
use bugle::pg::embedded::{Options, Server};
use sqlx::{Connection as _, PgConnection};

#[tokio::test]
async fn data_survives_a_stop_and_a_start() {
    let home = home();
    let dir = home.path().join("postgres");
    let first = Server::start(Options::at(&dir)).await.unwrap();
    run(&first, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)").await;
    let (url, postmaster, lifeline) = (first.url(), first.postmaster_pid(), first.lifeline_pid());
    first.stop().await.unwrap();
    assert!(!alive(postmaster) && !alive(lifeline), "stop waits for the end");

    let second = Server::start(Options::at(&dir)).await.unwrap();
    assert_eq!(ask(&second, "SELECT n::text FROM kept").await, "42");
    let password = |url: &str| url.split('@').next().unwrap().to_owned();
    assert_eq!(password(&second.url()), password(&url), "the password stays the same");
    second.stop().await.unwrap();
    let log = std::fs::read_to_string(dir.join("server.log")).unwrap();
    assert!(!log.contains("was not properly shut down"), "{log}");
}

#[tokio::test]
async fn a_restart_keeps_the_port_and_the_data() {
    let server = Server::start(Options::ephemeral()).await.unwrap();
    run(&server, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)").await;
    let (url, postmaster) = (server.url(), server.postmaster_pid());
    let server = server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    assert_ne!(server.postmaster_pid(), postmaster);
    assert_eq!(ask(&server, "SELECT n::text FROM kept").await, "42");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_ephemeral_server_leaves_nothing() {
    let server = Server::start(Options::ephemeral()).await.unwrap();
    let (data, socket_dir) = (server.data_dir().to_owned(), server.socket_dir().to_owned());
    let (postmaster, lifeline) = (server.postmaster_pid(), server.lifeline_pid());
    assert!(data.join("PG_VERSION").exists());
    server.stop().await.unwrap();
    assert!(!data.parent().unwrap().exists() && !socket_dir.exists());
    assert!(!alive(postmaster) && !alive(lifeline));
}

#[tokio::test]
async fn a_dropped_server_ends_too() {
    let server = Server::start(Options::ephemeral()).await.unwrap();
    let (dir, postmaster) = (server.data_dir().parent().unwrap().to_owned(), server.postmaster_pid());
    drop(server);
    super::eventually("the end of the server", || !dir.exists() && !alive(postmaster));
}

#[tokio::test]
async fn two_servers_run_side_by_side() {
    let (one, two) = tokio::join!(Server::start(Options::ephemeral()), Server::start(Options::ephemeral()));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_ne!(one.port(), two.port());
    assert_ne!(one.url(), two.url());
    run(&one, "CREATE TABLE here ()").await;
    assert_eq!(ask(&two, "SELECT coalesce(to_regclass('here')::text, 'nowhere')").await, "nowhere");
    one.stop().await.unwrap();
    two.stop().await.unwrap();
}

#[tokio::test]
async fn the_password_is_required_on_both_ways_in() {
    let server = Server::start(Options::ephemeral()).await.unwrap();
    let port = server.port();
    let wrong = format!("postgres://bugle:wrong@127.0.0.1:{port}/bugle");
    let refused = PgConnection::connect(&wrong).await.unwrap_err().to_string();
    assert!(refused.contains("password authentication failed"), "{refused}");
    let by_socket = server.connect_options().password("wrong");
    let refused = PgConnection::connect_with(&by_socket).await.unwrap_err().to_string();
    assert!(refused.contains("password authentication failed"), "{refused}");
    assert_eq!(ask(&server, "SELECT rolsuper::text FROM pg_roles WHERE rolname = 'bugle'").await, "true");
    assert_eq!(
        ask(&server, "SELECT substr(rolpassword, 1, 13) FROM pg_authid WHERE oid = 10").await,
        "SCRAM-SHA-256"
    );
    server.stop().await.unwrap();
}

#[tokio::test]
async fn the_settings_are_durable_and_those_given_win() {
    let options = Options::ephemeral().setting("work_mem", "5MB").setting("work_mem", "7MB");
    let server = Server::start(options.setting("application_name", r"it's \ me")).await.unwrap();
    let expected = [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("data_checksums", "on"),
        ("shared_buffers", "256MB"),
        ("max_wal_size", "2GB"),
        ("max_connections", "200"),
        ("jit", "off"),
        ("listen_addresses", "127.0.0.1"),
        ("server_encoding", "UTF8"),
        ("work_mem", "7MB"),
    ];
    for (name, value) in expected {
        assert_eq!(ask(&server, &format!("SHOW {name}")).await, value, "{name}");
    }
    let given = "SELECT reset_val FROM pg_settings WHERE name = 'application_name'";
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let name: String = sqlx::query_scalar(given).fetch_one(&mut connection).await.unwrap();
    assert_eq!(name, r"it's \ me");
    connection.close().await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_setting_that_postgresql_refuses_is_told_with_its_words() {
    let wrong = Options::ephemeral().setting("shared_buffers", "plenty");
    let error = Server::start(wrong).await.unwrap_err().to_string();
    assert!(error.contains("shared_buffers") && error.contains("plenty"), "{error}");
    let unsafe_name = Options::ephemeral().setting("fsync = off #", "on");
    let error = Server::start(unsafe_name).await.unwrap_err().to_string();
    assert!(error.contains("is not the name of a PostgreSQL setting"), "{error}");
}

#[tokio::test]
async fn statement_statistics_answer_where_the_installation_has_them() {
    let server = Server::start(Options::ephemeral()).await.unwrap();
    let available = "SELECT count(*)::text FROM pg_available_extensions WHERE name = 'pg_stat_statements'";
    let available = ask(&server, available).await == "1";
    assert_eq!(server.has_statement_statistics(), available);
    if available {
        run(&server, "SELECT 20261 + 1").await;
        let seen = "SELECT (count(*) > 0)::text FROM pg_stat_statements WHERE query LIKE 'SELECT $1 + $2%'";
        assert_eq!(ask(&server, seen).await, "true");
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_without_the_statistics_library_starts() {
    let options = Options::ephemeral().setting("dynamic_library_path", "/nowhere");
    let server = Server::start(options).await.unwrap();
    assert!(!server.has_statement_statistics());
    assert_eq!(ask(&server, "SHOW shared_preload_libraries").await, "");
    server.stop().await.unwrap();

    let options = Options::ephemeral().setting("shared_preload_libraries", "no_such_library");
    let refused = Server::start(options).await.unwrap_err().to_string();
    assert!(refused.contains("no_such_library"), "{refused}");
}

#[tokio::test]
async fn a_port_taken_meanwhile_is_told_and_a_named_one_is_used() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = Server::start(Options::ephemeral().port(port)).await.unwrap_err().to_string();
    assert!(refused.contains(&port.to_string()) && refused.contains("taken"), "{refused}");
    drop(taken);
    let server = Server::start(Options::ephemeral().port(port)).await.unwrap();
    assert_eq!(server.port(), port);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_terminals_ctrl_c_does_not_reach_the_server() {
    let server = Server::start(Options::ephemeral()).await.unwrap();
    let ours = rustix::process::getpgrp();
    for number in [server.postmaster_pid(), server.lifeline_pid()] {
        let group = rustix::process::getpgid(Some(super::pid(number))).unwrap();
        assert_ne!(group, ours, "process {number}");
    }
    server.stop().await.unwrap();
}
