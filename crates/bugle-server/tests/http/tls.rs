//! Proving who the server is.
use crate::fixture::{LOOPBACK, Site, node};
use bugle_server::{Options, Server, Tls};
use bugle_testkit::postgres::TestDb;

#[tokio::test]
async fn a_certificate_is_shown_and_http_2_is_agreed_on() {
    let folder = tempfile::tempdir().unwrap();
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let tls = Tls { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&tls.certificate, made.cert.pem()).unwrap();
    std::fs::write(&tls.key, made.signing_key.serialize_pem()).unwrap();
    let db = TestDb::schema().await.unwrap();
    let bugle = node(&db, bugle::wake_engine::Options::default()).await;
    let options = Options { tls: Some(tls.clone()), ..Options::new(LOOPBACK.parse().unwrap()) };
    let mut site = Site::serve(db, bugle.clone(), options).await;
    assert!(site.url.starts_with("https://"));
    assert!(site.http.get(site.path("/livez")).send().await.is_err(), "nobody knows this certificate");
    let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    site.http = reqwest::Client::builder().tls_certs_only([root]).build().unwrap();
    let live = site.http.get(site.path("/livez")).send().await.unwrap();
    assert_eq!((live.status().as_u16(), live.version()), (200, reqwest::Version::HTTP_2));
    site.push("p", [1]).await;
    assert_eq!(site.pop("").await.payloads(), [1]);

    let wrong = Tls { key: tls.certificate.clone(), ..tls };
    let options = Options { tls: Some(wrong), ..Options::new(LOOPBACK.parse().unwrap()) };
    let refused = Server::bind(bugle, options).await.err().unwrap().to_string();
    assert!(refused.contains("private key") && refused.contains("PEM"), "{refused}");
}
