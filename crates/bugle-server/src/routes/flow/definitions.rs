//! Definitions of workflows.

use super::{Refusals, scoped};
use crate::access::{Configure, Scope};
use crate::app::App;
use crate::body::TextBody;
use crate::error::{Error, Failed};
use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use bugle::flow::Definition;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(define))
}

/// Which version it is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DefineAnswer {
    name: String,
    version: i32,
    /// false: this version was there already, with the same content.
    is_new: bool,
}

/// A text that is read as JSON or as YAML.
enum Form {
    Json,
    Yaml,
}

impl Form {
    /// By its type; one that says nothing about it, such as what curl sends by itself, by its first letter.
    fn of(headers: &HeaderMap, text: &str) -> Result<Self, Error> {
        let sent = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?")).unwrap_or_default();
        let essence = sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/json" => Ok(Self::Json),
            "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Ok(Self::Yaml),
            "" | "application/x-www-form-urlencoded" | "application/octet-stream" | "text/plain" => {
                Ok(if text.trim_start().starts_with('{') { Self::Json } else { Self::Yaml })
            }
            _ => Err(Error::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("a definition is no {sent:?}; send application/json or application/yaml"),
            )),
        }
    }

    fn read(self, text: &str) -> Result<Definition, Error> {
        Ok(match self {
            Self::Json => Definition::parse_json(text)?,
            Self::Yaml => Definition::parse_yaml(text)?,
        })
    }
}

/// Define a workflow, as YAML or as JSON.
///
/// The same content again is the version that is there; another content is another version, and a version never changes. What is wrong with it is
/// said all at once, each with its line and its step. It needs the right for the definition's name, for the queues of its steps, and for those
/// that its events go to.
#[utoipa::path(post, path = "/api/v1/flow/definitions", tag = "flow",
    request_body(description = "docs/flow-definitions.md explains every field", content(
        (serde_json::Value = "application/json", example = json!({"name": "order", "steps": [{"name": "reserve"}, {"name": "charge", "after": ["reserve"]}]})),
        (String = "application/yaml", example = "name: order\nsteps:\n  - name: reserve\n  - { name: charge, after: [reserve] }\n"),
    )), responses(
    (status = 200, description = "It was there already", body = DefineAnswer, example = json!({"name": "order", "version": 1, "isNew": false})),
    (status = 201, description = "It is a new version", body = DefineAnswer, example = json!({"name": "order", "version": 1, "isNew": true})),
    (status = 409, description = "It names a version that is there with another content", body = Failed),
    (status = 415, description = "It is neither JSON nor YAML", body = Failed),
    Refusals,
))]
async fn define(
    scope: Scope<Configure>,
    headers: HeaderMap,
    TextBody(text): TextBody,
) -> Result<(StatusCode, Json<DefineAnswer>), Error> {
    let definition = Form::of(&headers, &text)?.read(&text)?;
    let flow = scope.flow_on("definition", definition.name())?;
    for step in definition.steps() {
        if step.kind.handler().is_some() {
            scope.flow_on("queue", &step.queue)?;
        }
        for event in &step.events {
            scope.flow_on("queue", &event.queue)?;
        }
    }
    let defined = flow.define(&definition).await?;
    let status = if defined.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let (name, version, is_new) = (definition.name().to_owned(), defined.version, defined.is_new);
    Ok((status, Json(DefineAnswer { name, version, is_new })))
}
