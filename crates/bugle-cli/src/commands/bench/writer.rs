//! Writing one row or one job in a transaction of its own.

use super::payload::payload;
use super::wire::Write;
use crate::failure::Failure;
use bugle::Bugle;
use sqlx::postgres::PgConnectOptions;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

/// Who writes.
pub(super) enum Writer {
    /// A session of its own, in SQL: any program, in any language.
    Session { connection: PgConnection, write: Write, queue: String },
    /// A session of its own, by Bugle's Rust interface.
    Own { connection: PgConnection, bugle: Bugle, queue: String },
    /// A node, by Bugle's Rust interface, on the node's pool: the program that also has the worker.
    Node { bugle: Bugle, queue: String },
}

impl Writer {
    pub(super) async fn session(
        connect: &PgConnectOptions,
        write: Write,
        queue: &str,
    ) -> Result<Self, Failure> {
        let connection = PgConnection::connect_with(connect).await?;
        Ok(Self::Session { connection, write, queue: queue.to_owned() })
    }

    pub(super) async fn own(bugle: &Bugle, queue: &str) -> Result<Self, Failure> {
        let connection = PgConnection::connect_with(&bugle.pool().connect_options()).await?;
        Ok(Self::Own { connection, bugle: bugle.clone(), queue: queue.to_owned() })
    }

    pub(super) fn node(bugle: &Bugle, queue: &str) -> Self {
        Self::Node { bugle: bugle.clone(), queue: queue.to_owned() }
    }

    /// Writes one and returns its number when the commit has been answered. The statement is prepared by the first call.
    pub(super) async fn write(&mut self) -> Result<i64, Failure> {
        match self {
            Self::Session { connection, write, queue } => {
                let query = match write {
                    Write::Bare => {
                        sqlx::query_scalar(include_str!("sql/bare_insert.sql")).bind(Json(payload()))
                    }
                    Write::BareNotify => {
                        sqlx::query_scalar(include_str!("sql/bare_notify_insert.sql")).bind(Json(payload()))
                    }
                    Write::Job => sqlx::query_scalar(include_str!("sql/enqueue.sql"))
                        .bind(Json(payload()))
                        .bind(queue.as_str()),
                };
                Ok(query.fetch_one(connection).await?)
            }
            Self::Own { connection, bugle, queue } => {
                Ok(bugle.enqueue_raw(queue, "bench", payload()).on(connection).await?.0)
            }
            Self::Node { bugle, queue } => Ok(bugle.enqueue_raw(queue, "bench", payload()).send().await?.0),
        }
    }

    /// Makes every commit of this session wait 2 ms before it is flushed, as on a slow disk. Refused to all but superusers.
    pub(super) async fn slow_down(&mut self) -> Result<(), Failure> {
        if let Self::Session { connection, .. } = self {
            sqlx::raw_sql(include_str!("sql/slow_flush.sql")).execute(connection).await?;
        }
        Ok(())
    }
}
