//! duroxide's own stress tests, in their short form: nothing may fail.

use crate::fixture::Place;
use async_trait::async_trait;
use bugle_duroxide::LongPollConfig;
use duroxide::provider_stress_tests::StressTestConfig;
use duroxide::provider_stress_tests::large_payload::{
    LargePayloadConfig, run_large_payload_test_with_config,
};
use duroxide::provider_stress_tests::parallel_orchestrations::{
    ProviderStressFactory, run_parallel_orchestrations_test_with_config,
};
use duroxide::providers::Provider;
use std::sync::Arc;

struct Factory(Place);

#[async_trait]
impl ProviderStressFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.provider(self.0.options(LongPollConfig::enabled())).await)
    }
}

fn short() -> StressTestConfig {
    StressTestConfig {
        duration_secs: 4,
        orch_concurrency: 4,
        worker_concurrency: 4,
        ..StressTestConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_orchestrations_all_complete() {
    let factory = Factory(Place::new().await);
    let result = run_parallel_orchestrations_test_with_config(&factory, short()).await.unwrap();
    assert!(result.completed > 0, "{result:?}");
    assert_eq!((result.completed, result.failed), (result.launched, 0), "{result:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_all_complete() {
    let factory = Factory(Place::new().await);
    let LargePayloadConfig { base, .. } = LargePayloadConfig::default();
    let base = StressTestConfig { duration_secs: 4, orch_concurrency: 4, worker_concurrency: 4, ..base };
    let config =
        LargePayloadConfig { base, activity_count: 9, sub_orch_count: 2, ..LargePayloadConfig::default() };
    let result = run_large_payload_test_with_config(&factory, config).await.unwrap();
    assert!(result.completed > 0, "{result:?}");
    assert_eq!((result.completed, result.failed), (result.launched, 0), "{result:?}");
}
