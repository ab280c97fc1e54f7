//! A message in your own transaction: it exists when that commits, and only then. The SQL is `push_in_transaction.sql`, beside this file.
//!
//! `cargo run --example push_in_transaction`
#![allow(clippy::print_stdout)] // it is for people to read

use bugle::Bugle;
use bugle::broker::{Pop, Settle, Verdict};
use bugle::pg::embedded::{Options, Server};
use sqlx::PgPool;
use std::time::Duration;

type Failed = Box<dyn std::error::Error>;

/// Writes an order and tells it to `orders`, both or neither.
async fn place_order(pool: &PgPool, id: i64, customer: i64, total: i64) -> Result<(), Failed> {
    let mut tx = pool.begin().await?;
    sqlx::query("INSERT INTO shop_order (id, customer, total) VALUES ($1, $2, $3)")
        .bind(id)
        .bind(customer)
        .bind(total)
        .execute(&mut *tx)
        .await?;
    sqlx::query("SELECT bugle.push('orders', $1, $2, key => $3)")
        .bind(format!("customer-{customer}"))
        .bind(serde_json::json!({"order": id, "total": total}))
        .bind(format!("order-{id}"))
        .execute(&mut *tx)
        .await?;
    if total < 0 {
        return Err("an order cannot cost less than nothing".into()); // dropped: rolled back, and so is the message
    }
    tx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let server = Server::start(Options::ephemeral()).await?; // or your own: Bugle::connect("postgres://...")
    let bugle = Bugle::connect(&server.url()).await?;
    let (pool, broker) = (bugle.pool().clone(), bugle.broker());
    sqlx::query(
        "CREATE TABLE shop_order (id bigint PRIMARY KEY, customer bigint NOT NULL, total bigint NOT NULL)",
    )
    .execute(&pool)
    .await?;

    place_order(&pool, 41, 7, 1_999).await?;
    let refused = place_order(&pool, 40, 7, -1).await;
    assert!(refused.is_err());
    sqlx::raw_sql(include_str!("push_in_transaction.sql")).execute(&pool).await?;

    // Whoever waits is woken by the commit.
    let (pop, mut told) = (Pop::new("orders")?.group("mailer")?.most(10)?, Vec::new());
    while told.len() < 3 {
        let popped =
            broker.pop_within(&pop, Duration::from_secs(30)).await?.ok_or("an order was not told")?;
        for message in &popped.messages {
            let order: serde_json::Value = serde_json::from_str(&message.payload)?;
            println!("{}: {order}", message.key.as_deref().unwrap_or("no key"));
            told.push(order["order"].as_i64());
        }
        let done: Vec<Settle> = popped.receipts().map(|receipt| receipt.settle(Verdict::Ack)).collect();
        broker.settle(&done).await?;
    }
    assert_eq!(
        told,
        [Some(41), Some(42), Some(43)],
        "each once, in the order of their commits; not the one that was rolled back"
    );
    bugle.close().await;
    server.stop().await?;
    Ok(())
}
