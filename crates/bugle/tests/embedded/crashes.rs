//! Bugle, its lifeline and the postmaster killed by -9.

use super::owner::Owner;
use super::{alive, ask, connect, eventually, home, kill_9, run};
use bugle::pg::embedded::{Options, Server};
use std::path::Path;

#[tokio::test]
async fn a_killed_owners_server_stops_and_the_next_one_finds_the_data() {
    let home = home();
    let dir = home.path().join("postgres");
    let mut owner = Owner::spawn(Some(&dir));
    let report = owner.report();
    let mut client = connect(&report.url).await;
    sqlx::raw_sql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)")
        .execute(&mut client)
        .await
        .unwrap();
    owner.kill_9();
    eventually("the lifeline stops the server", || !alive(report.postmaster));

    let server = Server::start(Options::at(&dir)).await.unwrap();
    assert_eq!(ask(&server, "SELECT n::text FROM kept").await, "42");
    server.stop().await.unwrap();
    drop(client);
}

#[tokio::test]
async fn a_server_on_its_way_out_is_no_obstacle() {
    let home = home();
    let dir = home.path().join("postgres");
    for _ in 0..4 {
        let mut owner = Owner::spawn(Some(&dir));
        owner.report();
        owner.kill_9(); // and at once, while the lifeline is at work:
        let server = Server::start(Options::at(&dir)).await.unwrap();
        assert_eq!(ask(&server, "SELECT 'here'").await, "here");
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn an_orphaned_server_is_replaced() {
    let home = home();
    let dir = home.path().join("postgres");
    let mut owner = Owner::spawn(Some(&dir));
    let report = owner.report();
    let mut client = connect(&report.url).await;
    sqlx::raw_sql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)")
        .execute(&mut client)
        .await
        .unwrap();
    kill_9(report.lifeline);
    owner.kill_9();
    sqlx::query("SELECT 1").execute(&mut client).await.unwrap(); // it does live on

    let server = Server::start(Options::at(&dir)).await.unwrap();
    assert!(!alive(report.postmaster), "there are not two of them");
    assert_ne!(server.postmaster_pid(), report.postmaster);
    assert_eq!(ask(&server, "SELECT n::text FROM kept").await, "42");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn orphaned_backends_and_a_stale_pid_file_are_no_obstacle() {
    let home = home();
    let dir = home.path().join("postgres");
    let mut owner = Owner::spawn(Some(&dir));
    let report = owner.report();
    // A backend in the middle of a computation does not notice that its postmaster is gone.
    let mut client = connect(&report.url).await;
    let busy = tokio::spawn(async move {
        sqlx::query("SELECT count(*) FROM generate_series(1, 1000000000)").execute(&mut client).await
    });
    let mut watcher = connect(&report.url).await;
    loop {
        let running: i64 =
            sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%1000000000%' AND pid <> pg_backend_pid()")
                .fetch_one(&mut watcher)
                .await
                .unwrap();
        if running == 1 {
            break;
        }
    }
    kill_9(report.lifeline);
    owner.kill_9();
    kill_9(report.postmaster);
    eventually("the death of the postmaster", || !alive(report.postmaster));
    assert!(report.data.join("postmaster.pid").exists());

    let server = Server::start(Options::at(&dir)).await.unwrap();
    assert_eq!(ask(&server, "SELECT 'here'").await, "here");
    assert!(busy.await.unwrap().is_err());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_pid_file_that_names_a_living_stranger_is_no_obstacle() {
    let home = home();
    let dir = home.path().join("postgres");
    let server = Server::start(Options::at(&dir)).await.unwrap();
    let data = server.data_dir().to_owned();
    let left = std::fs::read_to_string(data.join("postmaster.pid")).unwrap();
    server.stop().await.unwrap();
    // As after a reboot: the number belongs to a process of the same user that is no PostgreSQL.
    let stranger = left.lines().skip(1).fold(std::process::id().to_string(), |text, line| text + "\n" + line);
    std::fs::write(data.join("postmaster.pid"), stranger + "\n").unwrap();

    let server = Server::start(Options::at(&dir)).await.unwrap();
    assert_eq!(ask(&server, "SELECT 'here'").await, "here");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_ephemeral_folder_goes_with_its_killed_owner() {
    let mut owner = Owner::spawn(None);
    let report = owner.report();
    let client = connect(&report.url).await; // a client does not delay it
    owner.kill_9();
    let dir = report.data.parent().unwrap();
    eventually("the folder is removed", || !dir.exists());
    assert!(!alive(report.postmaster));
    eventually("the lifeline ends", || !alive(report.lifeline));
    drop(client);
}

#[tokio::test]
async fn a_cluster_half_made_is_made_again() {
    let home = home();
    let dir = home.path().join("postgres");
    let mut owner = Owner::spawn(Some(&dir));
    eventually("initdb begins", || {
        unfinished(&dir).is_some_and(|name| dir.join(name).join("postgresql.conf").exists())
    });
    owner.kill_9();
    assert!(!dir.join("data").exists(), "nothing that looks finished");

    let server = Server::start(Options::at(&dir)).await.unwrap();
    assert_eq!(ask(&server, "SELECT current_database()::text").await, "bugle");
    assert_eq!(unfinished(&dir), None);
    server.stop().await.unwrap();
}

fn unfinished(dir: &Path) -> Option<String> {
    let names =
        std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.into_iter().find(|name| name.starts_with("data.new"))
}

#[tokio::test]
async fn a_killed_postmaster_can_be_started_again() {
    let server = Server::start(Options::ephemeral()).await.unwrap();
    run(&server, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)").await;
    kill_9(server.postmaster_pid());
    let server = server.restart().await.unwrap();
    assert_eq!(ask(&server, "SELECT n::text FROM kept").await, "42");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn the_folders_lock_goes_with_its_owner_not_with_the_server() {
    let home = home();
    let dir = home.path().join("postgres");
    let server = Server::start(Options::at(&dir)).await.unwrap();
    let lock = dir.canonicalize().unwrap().join("bugle.lock");
    let holders = |process: String| {
        let Ok(open) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return 0 };
        open.flatten().filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|file| file == lock)).count()
    };
    assert_eq!(holders("self".into()), 1, "the test can see such things");
    let mut children = server.processes().unwrap();
    assert!(children.len() > 2, "{children:?}");
    children.push(server.lifeline_pid().try_into().unwrap());
    for child in children {
        assert_eq!(holders(child.to_string()), 0, "process {child}");
    }
    server.stop().await.unwrap();
}
