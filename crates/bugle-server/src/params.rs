//! Reading the path and the query of a request.

use crate::error::Error;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer};
use std::fmt;

/// The parts of the path that have names, decoded.
pub(crate) struct Path<T>(pub(crate) T);

/// The query. What it names beyond the fields of `T` is ignored: clients send more than anybody reads.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(path)| Self(path)).map_err(|error| Error::bad(error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|axum::extract::Query(query)| Self(query)).map_err(|error| Error::bad(error.body_text()))
    }
}

/// GET itself, and not HEAD, which handlers of GET answer as well: a pop whose answer is thrown away would lose what it has claimed.
pub(crate) struct Get;

impl<S: Send + Sync> FromRequestParts<S> for Get {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        if parts.method == Method::GET {
            return Ok(Self);
        }
        Err(Error::new(StatusCode::METHOD_NOT_ALLOWED, "a pop takes messages: send GET, and read the answer"))
    }
}

/// A switch in a query: `true` or `1`, `false` or `0`.
pub(crate) fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err(de::Error::custom(format_args!("{text:?} is neither true nor false"))),
    }
}

/// A moment in a query; one that is empty was not sent.
pub(crate) fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.filter(|text| !text.is_empty())
        .map(|text| parse_moment(&text).map_err(de::Error::custom))
        .transpose()
}

/// A moment that is no moment.
#[derive(Debug)]
pub(crate) struct NoMoment(String);

impl fmt::Display for NoMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no time; write 2026-01-31T13:30:00Z", self.0)
    }
}

/// A moment as clients write it. The years are those that PostgreSQL and programs can all read.
pub(crate) fn parse_moment(text: &str) -> Result<DateTime<Utc>, NoMoment> {
    use chrono::Datelike as _;
    DateTime::parse_from_rfc3339(text)
        .map(|at| at.with_timezone(&Utc))
        .ok()
        .filter(|at| (1..=9_999).contains(&at.year()))
        .ok_or_else(|| NoMoment(text.chars().take(60).collect()))
}

/// A number within its limits, or what to use instead.
pub(crate) fn within(what: &str, number: u64, min: u64, max: u64) -> Result<u64, Error> {
    if (min..=max).contains(&number) {
        return Ok(number);
    }
    Err(Error::bad(format!("{what} is {number}; use {min} to {max}")))
}
