//! Writing one row or one job in a transaction of its own.

use super::super::wire::Write;
use crate::failure::Failure;
use bugle::Bugle;
use serde_json::value::RawValue;
use sqlx::postgres::PgConnectOptions;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

/// 128 bytes.
const PAYLOAD: &str = r#"{"to": "somebody@example.com", "subject": "Your order has been sent", "order": 4711, "retry": false, "words": "fifteen letters"}"#;

/// Who writes.
pub(super) enum Writer {
    /// A session of its own, in SQL: any program, in any language.
    Session { connection: PgConnection, write: Write, queue: String },
    /// A node, by Bugle's Rust interface: the program that also has the worker.
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

    /// Writes one and returns its number when the commit has been answered. The statement is prepared by the first call.
    pub(super) async fn write(&mut self) -> Result<i64, Failure> {
        let payload = RawValue::from_string(PAYLOAD.to_owned()).unwrap_or_default();
        match self {
            Self::Session { connection, write, queue } => {
                let query = match write {
                    Write::Bare => {
                        sqlx::query_scalar(include_str!("../sql/bare_insert.sql")).bind(Json(payload))
                    }
                    Write::BareNotify => {
                        sqlx::query_scalar(include_str!("../sql/bare_notify_insert.sql")).bind(Json(payload))
                    }
                    Write::Job => sqlx::query_scalar(include_str!("../sql/enqueue.sql"))
                        .bind(Json(payload))
                        .bind(queue.as_str()),
                };
                Ok(query.fetch_one(connection).await?)
            }
            Self::Node { bugle, queue } => Ok(bugle.enqueue_raw(queue, "bench", payload).send().await?.0),
        }
    }

    /// Makes every commit of this session wait 2 ms before it is flushed, as on a slow disk. Refused to all but superusers.
    pub(super) async fn slow_down(&mut self) -> Result<(), Failure> {
        if let Self::Session { connection, .. } = self {
            sqlx::raw_sql(include_str!("../sql/slow_flush.sql")).execute(connection).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_payload_has_128_bytes() {
        assert_eq!(super::PAYLOAD.len(), 128);
    }
}
