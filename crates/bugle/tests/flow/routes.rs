//! Which worker set a step goes to.
use crate::fixture::{Place, spec};
use bugle::Bugle;
use bugle::flow::Route;
use bugle::name::NamespaceName;
use serde_json::json;

fn route(namespace: &str, priority: Option<i16>, queue: &str) -> Route {
    Route { namespace: namespace.to_owned(), priority, queue: queue.to_owned() }
}

/// A namespace with the definition `d`: `a` of priority 0, `b` of 2, `c` of 2 in a queue of its own.
async fn space(place: &Place, name: &str) -> Bugle {
    let name = NamespaceName::parse(name).unwrap();
    place.bugle.create_namespace(&name).await.unwrap();
    let spec = spec(&["a", "b", "c"], &json!({"a": {"priority": 0}, "c": {"queue": "own"}}));
    let sql = place.db.sql("SELECT version FROM bugle.define($1, sha256($1::text::bytea), $2)").unwrap();
    sqlx::query(sql).bind(spec).bind(name.as_str()).execute(place.db.pool()).await.unwrap();
    place.bugle.in_namespace(&name).await.unwrap()
}

/// Where the steps of a new run are, as `a:steps b:steps c:own`.
async fn places(place: &Place, bugle: &Bugle) -> String {
    let run = bugle.flow().start("d", &json!({})).send().await.unwrap();
    let sql = "SELECT string_agg(j.kind || ':' || q.name, ' ' ORDER BY j.kind) FROM bugle.job j JOIN bugle.queue q ON q.id = j.queue WHERE j.payload->>0 = '";
    place.one::<String>(&format!("{sql}{}'", run.id())).await
}

#[tokio::test]
async fn the_first_rule_that_fits_decides_for_steps_that_name_no_queue() {
    let place = Place::new().await;
    let (pay, mail) = (space(&place, "pay_eu").await, space(&place, "mail").await);
    assert_eq!(places(&place, &pay).await, "a:steps b:steps c:own");
    let rules = [
        route("pay*", Some(1), "fast"),
        route("pay_us", None, "slow"),
        route("pay*", None, "pay"),
        route("p%", None, "no"),
    ];
    place.bugle.flow().set_routes(&rules).await.unwrap();
    assert_eq!(place.bugle.flow().routes().await.unwrap(), rules);
    assert_eq!(places(&place, &pay).await, "a:fast b:pay c:own");
    assert_eq!(places(&place, &mail).await, "a:steps b:steps c:own", "no rule fits");
    let new = space(&place, "pay_us").await;
    assert_eq!(
        places(&place, &new).await,
        "a:fast b:slow c:own",
        "the rules are asked for a namespace that comes later"
    );
    place.bugle.flow().set_routes(&[]).await.unwrap();
    assert_eq!(places(&place, &pay).await, "a:steps b:steps c:own");
    place.audit().await;
}

/// What a settlement makes ready goes by the rules of that moment, is found there, and `why` names the place.
#[tokio::test]
async fn a_step_that_follows_is_routed_when_its_turn_comes() {
    let place = Place::with(&["a", "b < a"], json!({})).await;
    let run = place.start().await;
    place.bugle.flow().set_routes(&[route("*", None, "crew")]).await.unwrap();
    let claim = bugle::flow::Claim::new("w").unwrap();
    let flow = place.bugle.flow();
    let steps = flow.queue("steps").await.unwrap();
    let a = steps.claim_within(&claim, crate::fixture::SOON).await.unwrap();
    steps.settle(&a[0].receipt, bugle::Verdict::Done).await.unwrap();
    let said = flow.why(run.id()).await.unwrap().unwrap();
    assert_eq!(said.waits[0].reason, bugle::flow::inspect::Reason::NoWorker { queue: "crew".to_owned() });
    let crew = flow.queue("crew").await.unwrap();
    let b = crew.claim_within(&claim, crate::fixture::SOON).await.unwrap();
    crew.settle(&b[0].receipt, bugle::Verdict::Done).await.unwrap();
    assert_eq!(place.ended(&run).await.1, "a=succeeded b=succeeded");
}

#[tokio::test]
async fn rules_that_lead_nowhere_are_refused() {
    let place = Place::new().await;
    let flow = place.bugle.flow();
    for (rule, fault) in [
        (route("", None, "q"), "namespace name is empty"),
        (route("*", None, ""), "queue name is empty"),
        (route("*", Some(4), "q"), "priority of a rule is 4"),
        (route("*", None, "flow engine"), "where Bugle does its own part of workflows"),
    ] {
        let error = flow.set_routes(std::slice::from_ref(&rule)).await.unwrap_err().to_string();
        assert!(error.contains(fault), "{rule:?}: {error}");
    }
    let sql = place.db.sql("SELECT bugle.set_routes('[{\"namespace\": \"*\"}]')").unwrap();
    let error = sqlx::query(sql).execute(place.db.pool()).await.unwrap_err().to_string();
    assert!(error.contains("a rule is {\"namespace\": \"*\"}"), "{error}");
}
