//! A process of `bugle bench durable` with one of the providers that Bugle is compared with. It does what `bugle bench scene` does.

#[path = "../../../crates/bugle-cli/src/commands/bench/scene/mod.rs"]
mod scene;

use duroxide::providers::Provider;
use scene::Fault;
use scene::wire::Role;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    scene::run(make).await
}

async fn make(role: &Role) -> Result<Arc<dyn Provider>, Fault> {
    Ok(match role.provider.as_str() {
        "duroxide-pg" => Arc::new(duroxide_pg::PostgresProvider::new(&role.url).await?),
        "duroxide-pg-opt" => Arc::new(duroxide_pg_opt::PostgresProvider::new(&role.url).await?),
        other => return Err(format!("no such provider: {other}").into()),
    })
}
