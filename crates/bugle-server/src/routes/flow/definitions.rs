//! Definitions of workflows.

use super::{Missing, Refusals, scoped};
use crate::access::{Configure, Inspect, Scope};
use crate::answer::micros;
use crate::app::App;
use crate::body::TextBody;
use crate::error::{Error, Failed};
use crate::params::{Path, Query};
use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use bugle::flow::Definition;
use bugle::flow::inspect::DefinitionRow;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(define, list)).routes(scoped!(show))
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

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// The versions of this definition; not sent: of all.
    name: Option<String>,
}

/// One version of a definition.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DefinitionView {
    name: String,
    version: i32,
    /// How many steps it has.
    steps: i32,
    /// How a start is recognised as a repetition: `strict`, `key` or `always_new`.
    identity: String,
    /// How long a run may take.
    deadline_millis: Option<i64>,
    description: Option<String>,
    defined_at: String,
    /// Runs of it that have not ended, counted up to 10,000.
    open: i64,
    /// Runs of it that failed, counted in the same way.
    failed: i64,
}

impl From<DefinitionRow> for DefinitionView {
    fn from(row: DefinitionRow) -> Self {
        Self {
            name: row.name,
            version: row.version,
            steps: row.steps,
            identity: row.identity,
            deadline_millis: row.deadline_ms,
            description: row.description,
            defined_at: micros(row.defined_at),
            open: row.open,
            failed: row.failed,
        }
    }
}

#[derive(Serialize, ToSchema)]
struct DefinitionsAnswer {
    definitions: Vec<DefinitionView>,
}

/// Definitions, by name and the newest version first.
#[utoipa::path(get, path = "/api/v1/flow/definitions", tag = "flow", params(ListQuery), responses(
    (status = 200, description = "Those that the caller may see", body = DefinitionsAnswer), Refusals,
))]
async fn list(
    scope: Scope<Inspect>,
    Query(query): Query<ListQuery>,
) -> Result<Json<DefinitionsAnswer>, Error> {
    let rows = scope.flow_seen().list_definitions(query.name.as_deref()).await?;
    let seen = rows.into_iter().filter(|row| scope.sees(&row.name));
    Ok(Json(DefinitionsAnswer { definitions: seen.map(DefinitionView::from).collect() }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct VersionQuery {
    /// Not sent: the newest.
    #[param(minimum = 1, example = 1)]
    version: Option<i32>,
}

/// A definition as it is stored.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DefinitionAnswer {
    name: String,
    version: i32,
    defined_at: String,
    /// In the canonical form: every default written out. It can be sent again as JSON.
    #[schema(value_type = Object)]
    definition: serde_json::Value,
    /// The same for people, without defaults.
    yaml: String,
}

/// One definition, in its newest version or in another.
#[utoipa::path(get, path = "/api/v1/flow/definitions/{name}", tag = "flow", params(("name" = String, Path, example = "order"), VersionQuery), responses(
    (status = 200, description = "The definition", body = DefinitionAnswer), Missing, Refusals,
))]
async fn show(
    scope: Scope<Inspect>,
    Path(name): Path<String>,
    Query(query): Query<VersionQuery>,
) -> Result<Json<DefinitionAnswer>, Error> {
    let found = scope.flow_on("definition", &name)?.show_definition(&name, query.version).await?;
    let found = found.ok_or_else(|| {
        let version = query.version.map_or_else(String::new, |version| format!(" version {version}"));
        Error::missing(format!(
            "there is no definition {name:?}{version}; GET /api/v1/flow/definitions lists them"
        ))
    })?;
    Ok(Json(DefinitionAnswer {
        name,
        version: found.version,
        defined_at: micros(found.defined_at),
        yaml: found.definition.to_yaml(),
        definition: found.definition.to_json(),
    }))
}
