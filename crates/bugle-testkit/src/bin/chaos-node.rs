//! A producer or worker for the chaos suite; see `bugle_testkit::chaos`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    bugle_testkit::chaos::node_main().await
}
