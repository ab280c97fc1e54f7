//! Which folders are taken, refused and protected.

use super::owner::Owner;
use super::{ask, home, run};
use bugle::pg::embedded::{Error, Options, Server};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

#[tokio::test]
async fn a_folder_in_use_is_refused_with_the_owners_pid() {
    let home = home();
    let dir = home.path().join("postgres");
    let owner = Owner::spawn(Some(&dir));
    let report = owner.report();
    let refused = Server::start(Options::at(&dir)).await.unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains(&owner.process.id().to_string()), "{refused}");
    super::connect(&report.url).await; // and it was left in peace
}

#[tokio::test]
async fn a_folder_of_somebody_elses_is_left_alone() {
    let home = home();
    std::fs::write(home.path().join("thesis.txt"), "years of work").unwrap();
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let refused = Server::start(Options::at(home.path())).await.unwrap_err();
    assert!(matches!(refused, Error::NotOurs { .. }), "{refused}");
    let names: Vec<_> = std::fs::read_dir(home.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(names, ["thesis.txt"]);
    assert_eq!(std::fs::metadata(home.path()).unwrap().permissions().mode() & 0o777, 0o755);
}

#[tokio::test]
async fn everything_is_closed_to_other_users() {
    let home = home();
    let dir = home.path().join("postgres");
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(Options::at(&dir)).await.unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(dir.clone()), 0o700);
    assert_eq!(mode(dir.join("data")), 0o700);
    assert_eq!(mode(dir.join("socket")), 0o700);
    assert_eq!(mode(dir.join("password")), 0o600);
    assert_eq!(mode(dir.join("server.log")), 0o600);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_works() {
    let home = home();
    let dir = home.path().join("a".repeat(120)).join("it's, \"odd\" & long");
    let server = Server::start(Options::at(&dir)).await.unwrap();
    let socket_dir = server.socket_dir().to_owned();
    assert!(!socket_dir.starts_with(home.path()));
    assert_eq!(ask(&server, "SELECT 'by socket'").await, "by socket");
    run(&server, "SELECT 'by port'").await;
    server.stop().await.unwrap();
    assert!(!socket_dir.exists(), "what is outside the folder goes at the end");
}

#[tokio::test]
async fn data_of_another_version_is_refused_with_both_versions() {
    let home = home();
    let dir = home.path().join("postgres");
    let server = Server::start(Options::at(&dir)).await.unwrap();
    let (major, version) = (server.major_version(), server.data_dir().join("PG_VERSION"));
    server.stop().await.unwrap();
    std::fs::write(&version, "9\n").unwrap();
    let refused = Server::start(Options::at(&dir)).await.unwrap_err().to_string();
    assert!(refused.contains("version 9") || refused.contains(&format!("PostgreSQL {major}")), "{refused}");
}

#[tokio::test]
async fn data_without_its_password_is_refused() {
    let home = home();
    let dir = home.path().join("postgres");
    Server::start(Options::at(&dir)).await.unwrap().stop().await.unwrap();
    std::fs::remove_file(dir.join("password")).unwrap();
    let refused = Server::start(Options::at(&dir)).await.unwrap_err();
    assert!(matches!(refused, Error::NoPassword { .. }), "{refused}");
}

#[tokio::test]
async fn a_folder_without_postgresql_is_told() {
    let empty = tempfile::tempdir().unwrap();
    let refused = Server::start(Options::ephemeral().bin_dir(empty.path())).await.unwrap_err();
    assert!(matches!(refused, Error::BadBinaries { .. }), "{refused}");
    assert!(refused.to_string().contains(&empty.path().display().to_string()), "{refused}");
}
