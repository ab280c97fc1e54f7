//! What is answered when something cannot be done: a status, and `{"error": "..."}`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bugle::Outcome;
use bugle::flow::definition;
use serde::Serialize;
use utoipa::ToSchema;

/// Seconds after which a client may try again what could not be done now.
const TRY_AGAIN_IN: &str = "1";

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    status: StatusCode,
    sentence: String,
    outcome: Outcome,
    faults: Vec<definition::Fault>,
}

/// An error on the wire.
#[derive(Debug, Serialize, ToSchema)]
pub struct Failed {
    /// What is wrong, the value, and the next step.
    error: String,
    /// `unknown`: it may have been done all the same; try again with the same transactionId or key. Left out when nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// Of a definition: everything that is wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<Fault>>)]
    faults: Vec<definition::Fault>,
}

/// One thing that is wrong with a definition.
#[derive(ToSchema)]
#[allow(dead_code, clippy::struct_field_names)] // only its description is used: the library writes it
struct Fault {
    /// The line of what was sent, from 1.
    line: Option<usize>,
    /// The column in that line, from 1.
    column: Option<usize>,
    /// The step that it is about.
    step: Option<String>,
    /// What is wrong, with the value.
    fault: String,
    /// What to do about it.
    next: String,
}

impl Error {
    /// Nothing was done, for this reason.
    pub(crate) fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into(), outcome: Outcome::Refused, faults: Vec::new() }
    }

    /// The request is wrong.
    pub(crate) fn bad(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, sentence)
    }

    /// There is no such thing.
    pub(crate) fn missing(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, sentence)
    }

    /// The same, with where in the request it is.
    #[must_use]
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.sentence = format!("{place}: {}", self.sentence);
        self
    }

    /// Is it about who the caller is?
    pub(crate) fn is_about_the_caller(&self) -> bool {
        matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// What is wrong, in a sentence.
    pub(crate) fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl From<bugle::Error> for Error {
    fn from(error: bugle::Error) -> Self {
        use bugle::Error as E;
        let status = match &error {
            E::Invalid { .. } | E::Payload { .. } => StatusCode::BAD_REQUEST,
            E::Refused { code, .. } => of_code(code),
            E::QueueFull { .. } => StatusCode::TOO_MANY_REQUESTS,
            E::StepLost { .. } => StatusCode::CONFLICT,
            E::NoConnection(_) | E::Unknown(_) | E::TooMany(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() && !matches!(error, E::TooMany(_)) {
            tracing::warn!(%error, status = status.as_u16(), "A request could not be carried out.");
        }
        Self { status, outcome: error.outcome(), sentence: error.to_string(), faults: Vec::new() }
    }
}

impl From<definition::Error> for Error {
    fn from(error: definition::Error) -> Self {
        Self { faults: error.faults().to_vec(), ..Self::bad(error.to_string()) }
    }
}

/// Whose fault a SQLSTATE is.
fn of_code(code: &str) -> StatusCode {
    match code {
        // The queue holds something else; a version is there with another content; a step cannot be changed so.
        "BGL04" | "BGL10" | "BGL13" | "BGL14" => StatusCode::CONFLICT,
        "BGL11" | "BGL12" => StatusCode::NOT_FOUND, // no such definition, run or step
        "40P01" | "40001" | "55P03" => StatusCode::SERVICE_UNAVAILABLE, // others were in the way
        "0A000" => StatusCode::BAD_REQUEST,         // an option that cannot be had
        _ => match code.get(..2).unwrap_or_default() {
            "22" | "23" | "54" => StatusCode::BAD_REQUEST, // values, constraints, limits
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        },
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let outcome = (self.outcome == Outcome::Unknown).then_some("unknown");
        let mut response = (self.status, Json(Failed { error: self.sentence, outcome, faults: self.faults }))
            .into_response();
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(TRY_AGAIN_IN));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
