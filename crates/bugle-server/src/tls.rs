//! Proving who the server is.

use crate::server::StartError;
use axum_server::tls_rustls::RustlsConfig;
use std::path::{Path, PathBuf};

/// A certificate and its private key, in PEM files.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate, those that it depends on behind it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Tls {
    pub(crate) async fn load(&self) -> Result<RustlsConfig, StartError> {
        // Another part of the process may have chosen one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificate = read("the certificate", &self.certificate).await?;
        let key = read("the private key", &self.key).await?;
        RustlsConfig::from_pem(certificate, key).await.map_err(|error| StartError::Tls {
            what: "the certificate or its private key",
            path: self.certificate.clone(),
            error,
        })
    }
}

async fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, StartError> {
    tokio::fs::read(path).await.map_err(|error| StartError::Tls { what, path: path.to_owned(), error })
}
