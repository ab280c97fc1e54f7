//! duroxide's own suite for providers: all of it with fetches that wait, and all of it with fetches that return at once.
//!
//! Most cases sleep most of their time, five of them for 30 s: run many at once (`scripts/suites` does).
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod cases;
mod factory;

use cases::every_case;
use duroxide::provider_validation as suite;
use duroxide::provider_validations::ProviderFactory as _;
use factory::Factory;
use std::time::Duration;

/// A test for each case, with the `factory()` of the module around.
macro_rules! tests {
    ($($area:ident: $($case:ident,)+;)+) => {
        $(mod $area {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::suite::$area::$case(&super::factory()).await;
            })+
        })+
    };
}

/// The same for those that take more than a factory.
macro_rules! special_tests {
    () => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn race_replay_continue_as_new_transition_delivery_of_0_1_30() {
            crate::suite::race_replay::test_continue_as_new_transition_delivery(&factory(), "0.1.30").await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn race_replay_continue_as_new_transition_delivery_of_0_1_31() {
            crate::suite::race_replay::test_continue_as_new_transition_delivery(&factory(), "0.1.31").await;
        }

        #[tokio::test]
        async fn fetch_respects_timeout_upper_bound() {
            let factory = factory();
            let provider = factory.create_provider().await;
            crate::suite::long_polling::test_fetch_respects_timeout_upper_bound(&*provider).await;
        }
    };
}

mod waiting {
    use super::*;

    fn factory() -> Factory {
        Factory::waiting()
    }

    every_case!(tests);
    special_tests!();

    #[tokio::test]
    async fn long_poll_waits_for_timeout() {
        let factory = factory();
        let provider = factory.create_provider().await;
        suite::long_polling::test_long_poll_waits_for_timeout(&*provider).await;
    }

    #[tokio::test]
    async fn long_poll_work_item_waits_for_timeout() {
        let factory = factory();
        let provider = factory.create_provider().await;
        suite::long_polling::test_long_poll_work_item_waits_for_timeout(&*provider).await;
    }
}

mod at_once {
    use super::*;

    fn factory() -> Factory {
        Factory::at_once()
    }

    every_case!(tests);
    special_tests!();

    #[tokio::test]
    async fn short_poll_returns_immediately() {
        let factory = factory();
        let provider = factory.create_provider().await;
        suite::long_polling::test_short_poll_returns_immediately(&*provider, factory.short_poll_threshold())
            .await;
    }

    #[tokio::test]
    async fn short_poll_work_item_returns_immediately() {
        let factory = factory();
        let (provider, most) = (factory.create_provider().await, Duration::from_millis(500));
        suite::long_polling::test_short_poll_work_item_returns_immediately(&*provider, most).await;
    }
}

/// Every case that corrupts a history, with text that is not JSON.
mod garbage {
    use super::*;

    fn factory() -> Factory {
        Factory::waiting().corrupting_with_garbage()
    }

    tests! {
        capability_filtering:
            test_fetch_corrupted_history_filtered_vs_unfiltered,
            test_fetch_filter_applied_before_history_deserialization,
            test_fetch_deserialization_error_increments_attempt_count,
            test_fetch_deserialization_error_eventually_reaches_poison,
            test_ack_appends_event_to_corrupted_history,
        ;
        error_handling:
            test_read_corrupted_history_returns_error,
            test_read_with_execution_corrupted_history_returns_error,
        ;
    }
}
