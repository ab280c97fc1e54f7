//! A server that lets everybody in is for this machine alone, and a web page that somebody on this machine visits is a stranger: its scripts can
//! send requests to loopback addresses, and a name of its own may lead there.

use crate::app::App;
use crate::error::Error;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use std::net::IpAddr;

/// Refuses, on a server without keys, requests that a page of another host has sent or that were meant for another host.
pub(crate) fn refuse_stranger(app: &App, request: &Request) -> Result<(), Error> {
    if app.access().is_open() && is_strange(request.uri(), request.headers()) {
        let sentence =
            "this server has no keys and serves this machine alone; call it as 127.0.0.1 or localhost";
        return Err(Error::new(StatusCode::FORBIDDEN, sentence));
    }
    Ok(())
}

fn is_strange(uri: &Uri, headers: &HeaderMap) -> bool {
    let authority = |text: &str| text.parse::<Authority>().ok();
    let host = uri.authority().cloned().or_else(|| authority(headers.get(HOST)?.to_str().ok()?));
    let origin = headers.get(ORIGIN).map(|origin| {
        let origin = origin.to_str().ok()?.parse::<Uri>().ok()?;
        origin.authority().cloned()
    });
    // Without a Host (HTTP/1.0) no browser has sent it.
    let is_of_another_host = host.is_some_and(|host| !is_here(&host));
    let is_of_another_page = origin.is_some_and(|origin| !origin.is_some_and(|origin| is_here(&origin)));
    is_of_another_host || is_of_another_page
}

/// Is it a name of this machine's loopback?
fn is_here(authority: &Authority) -> bool {
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strange(headers: &[(&str, &str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| {
            (
                name.parse::<axum::http::HeaderName>().unwrap(),
                value.parse::<axum::http::HeaderValue>().unwrap(),
            )
        });
        is_strange(&Uri::from_static("/api/v1/push"), &headers.collect())
    }

    #[test]
    fn a_page_of_another_host_is_a_stranger() {
        assert!(!strange(&[]));
        for here in ["127.0.0.1:6632", "localhost:6632", "[::1]:6632", "LOCALHOST"] {
            assert!(!strange(&[("host", here)]), "{here}");
            assert!(!strange(&[("host", here), ("origin", &format!("http://{here}"))]), "{here}");
        }
        assert!(strange(&[("host", "rebound.example:6632")]));
        assert!(strange(&[("host", "localhost"), ("origin", "https://shop.example")]));
        assert!(strange(&[("host", "localhost"), ("origin", "null")]), "a page without a host");
    }
}
