//! Reading the JSON of a request.

use crate::app::App;
use crate::error::Error;
use crate::limits::{BODY_BYTES_MAX, JSON_DEPTH_MAX};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::error::Error as _;
use std::time::Duration;

/// The body of a request, which must not be empty.
pub(crate) struct Body<T>(pub(crate) T);

/// The body of a request as a text, for those who read it in their own way.
pub(crate) struct TextBody(pub(crate) String);

/// The body of a request that may as well have none, or null.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let bytes = read(request, app.patience().body).await?;
        if bytes.is_empty() {
            return Err(Error::bad("Empty request body"));
        }
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let bytes = read(request, app.patience().body).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        parse::<Option<T>>(&bytes).map(|body| Self(body.unwrap_or_default()))
    }
}

impl FromRequest<App> for TextBody {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let bytes = read(request, app.patience().body).await?;
        let text = String::from_utf8(bytes.into()).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Error::bad(format!("byte {at} of the body is no UTF-8; send it in UTF-8"))
        })?;
        Ok(Self(text))
    }
}

async fn read(request: Request, within: Duration) -> Result<Bytes, Error> {
    let too_slow =
        || Error::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time; send it again");
    let too_large = || {
        Error::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {BODY_BYTES_MAX} bytes; send it in several requests"),
        )
    };
    let reading = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX);
    let read = tokio::time::timeout(within, reading).await.map_err(|_| too_slow())?;
    read.map_err(|error| {
        let causes = || std::iter::successors(error.source(), |&cause| cause.source());
        if causes().any(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>) {
            too_large()
        } else if causes().any(<dyn std::error::Error>::is::<tower_http::timeout::TimeoutError>) {
            too_slow()
        } else {
            Error::bad(format!("the body could not be read: {error}; send it again"))
        }
    })
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    if is_too_deep(bytes) {
        return Err(Error::bad(format!(
            "Invalid JSON: nested deeper than {JSON_DEPTH_MAX}; send a payload that is that deep as a text"
        )));
    }
    // All of it: the parser does not look into members that nobody reads.
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Error::bad(format!("Invalid JSON: byte {} is no UTF-8; send the body in UTF-8", error.valid_up_to()))
    })?;
    serde_json::from_str(text).map_err(|error| {
        if !error.is_data() {
            return Error::bad(format!("Invalid JSON: {error}"));
        }
        // Read once more, slowly, to tell where it is.
        let reader = &mut serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(reader) {
            Err(error) if error.path().iter().next().is_some() => Error::bad(error.to_string()),
            _ => Error::bad(error.to_string()),
        }
    })
}

/// Is it nested too deep? Whether it is JSON at all is for the parser to say.
fn is_too_deep(bytes: &[u8]) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > JSON_DEPTH_MAX {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_that_of_brackets_outside_of_texts() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(nested(JSON_DEPTH_MAX).as_bytes()));
        assert!(is_too_deep(nested(JSON_DEPTH_MAX + 1).as_bytes()));
        assert!(!is_too_deep(format!(r#"["\"{}"]"#, "[".repeat(1_000)).as_bytes()));
        assert!(!is_too_deep("[1],".repeat(1_000).as_bytes()), "beside each other");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        #[derive(Debug, serde::Deserialize)]
        struct Item {
            #[allow(dead_code)]
            queue: String,
        }
        let error = parse::<Vec<Item>>(br#"[{"queue": "a"}, {"queue": 5}]"#).unwrap_err();
        assert!(error.sentence().starts_with("[1].queue: invalid type: integer `5`"), "{error:?}");
        let error = parse::<Vec<Item>>(b"[{").unwrap_err();
        assert!(error.sentence().starts_with("Invalid JSON: EOF"), "{error:?}");
        for no_text in [&b"[{\"queue\": \"\xff\"}]"[..], b"[{\"queue\": \"a\", \"x\": \"\xff\"}]"] {
            let error = parse::<Vec<Item>>(no_text).unwrap_err();
            assert!(error.sentence().contains("is no UTF-8"), "{error:?}");
        }
    }
}
