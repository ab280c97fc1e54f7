//! What people ask and do: duroxide's management calls.

use crate::items::{signed, unsigned};
use crate::provider::PostgresProvider;
use crate::store::run;
use crate::text;
use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, ProviderAdmin,
    ProviderError, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};

/// Instances that a bulk call touches unless it says how many.
const BULK: u32 = 1_000;

#[derive(sqlx::FromRow)]
struct InstanceRow {
    name: String,
    version: Option<String>,
    execution: i64,
    parent: Option<String>,
    status: Option<String>,
    output: Option<String>,
    created_ms: i64,
    updated_ms: i64,
}

#[derive(sqlx::FromRow)]
struct ExecutionRow {
    status: String,
    output: Option<String>,
    started_ms: i64,
    completed_ms: Option<i64>,
    events: i64,
}

/// Instances, executions, events and queued messages that were removed.
type Removed = (i64, i64, i64, i64);

fn removed((instances, executions, events, messages): Removed) -> DeleteInstanceResult {
    DeleteInstanceResult {
        instances_deleted: unsigned(instances),
        executions_deleted: unsigned(executions),
        events_deleted: unsigned(events),
        queue_messages_deleted: unsigned(messages),
    }
}

impl PostgresProvider {
    async fn instances(&self, operation: &str, status: Option<&str>) -> Result<Vec<String>, ProviderError> {
        let store = self.store();
        run(operation, || {
            Box::pin(sqlx::query_scalar(store.sql.list_instances()).bind(status).fetch_all(&store.pool))
        })
        .await
    }

    async fn prune(
        &self,
        operation: &str,
        filter: &InstanceFilter,
        options: &PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let store = self.store();
        let (instances, executions, events): (i64, i64, i64) = run(operation, || {
            let query = sqlx::query_as(store.sql.prune())
                .bind(&filter.instance_ids)
                .bind(filter.completed_before.map(signed))
                .bind(i64::from(filter.limit.unwrap_or(BULK)))
                .bind(options.keep_last.map(i64::from))
                .bind(options.completed_before.map(signed));
            Box::pin(query.fetch_one(&store.pool))
        })
        .await?;
        Ok(PruneResult {
            instances_processed: unsigned(instances),
            executions_deleted: unsigned(executions),
            events_deleted: unsigned(events),
        })
    }
}

#[async_trait]
impl ProviderAdmin for PostgresProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        self.instances("list_instances", None).await
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        self.instances("list_instances_by_status", Some(status)).await
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        let store = self.store();
        let executions: Vec<i64> = run("list_executions", || {
            Box::pin(sqlx::query_scalar(store.sql.list_executions()).bind(instance).fetch_all(&store.pool))
        })
        .await?;
        Ok(executions.into_iter().map(unsigned).collect())
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.store().read_execution("read_history_with_execution_id", instance, execution_id).await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.store().read("read_history", instance).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        Ok(self.list_executions(instance).await?.last().copied().unwrap_or(1))
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        const OPERATION: &str = "get_instance_info";
        let store = self.store();
        let row: Option<InstanceRow> = run(OPERATION, || {
            Box::pin(sqlx::query_as(store.sql.instance_info()).bind(instance).fetch_optional(&store.pool))
        })
        .await?;
        let row = row.ok_or_else(|| unknown(OPERATION, instance))?;
        Ok(InstanceInfo {
            instance_id: instance.to_owned(),
            orchestration_name: row.name,
            orchestration_version: row.version.unwrap_or_else(|| "unknown".to_owned()),
            current_execution_id: unsigned(row.execution),
            status: row.status.unwrap_or_else(|| "Unknown".to_owned()),
            output: row.output.map(text::read),
            created_at: unsigned(row.created_ms),
            updated_at: unsigned(row.updated_ms),
            parent_instance_id: row.parent,
        })
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        const OPERATION: &str = "get_execution_info";
        let store = self.store();
        let row: Option<ExecutionRow> = run(OPERATION, || {
            let query = sqlx::query_as(store.sql.execution_info()).bind(instance).bind(signed(execution_id));
            Box::pin(query.fetch_optional(&store.pool))
        })
        .await?;
        let row = row.ok_or_else(|| {
            let message = format!("Execution {execution_id} not found for instance {instance}");
            ProviderError::permanent(OPERATION, message)
        })?;
        Ok(ExecutionInfo {
            execution_id,
            status: row.status,
            output: row.output.map(text::read),
            started_at: unsigned(row.started_ms),
            completed_at: row.completed_ms.map(unsigned),
            event_count: usize::try_from(row.events).unwrap_or(0),
        })
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        let store = self.store();
        let row: (i64, i64, i64, i64, i64, i64) = run("get_system_metrics", || {
            Box::pin(sqlx::query_as(store.sql.system_metrics()).fetch_one(&store.pool))
        })
        .await?;
        Ok(SystemMetrics {
            total_instances: unsigned(row.0),
            running_instances: unsigned(row.1),
            completed_instances: unsigned(row.2),
            failed_instances: unsigned(row.3),
            total_executions: unsigned(row.4),
            total_events: unsigned(row.5),
        })
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        let store = self.store();
        let (messages, work): (i64, i64) = run("get_queue_depths", || {
            Box::pin(sqlx::query_as(store.sql.queue_depths()).fetch_one(&store.pool))
        })
        .await?;
        Ok(QueueDepths {
            orchestrator_queue: usize::try_from(messages).unwrap_or(0),
            worker_queue: usize::try_from(work).unwrap_or(0),
            timer_queue: 0, // timers are messages that are due later
        })
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        let store = self.store();
        run("list_children", || {
            Box::pin(sqlx::query_scalar(store.sql.list_children()).bind(instance_id).fetch_all(&store.pool))
        })
        .await
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        const OPERATION: &str = "get_parent_id";
        let store = self.store();
        let parent: Option<Option<String>> = run(OPERATION, || {
            Box::pin(sqlx::query_scalar(store.sql.parent_of()).bind(instance_id).fetch_optional(&store.pool))
        })
        .await?;
        parent.ok_or_else(|| unknown(OPERATION, instance_id))
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree, ProviderError> {
        let store = self.store();
        let all_ids = run("get_instance_tree", || {
            Box::pin(sqlx::query_scalar(store.sql.tree_of()).bind(instance_id).fetch_all(&store.pool))
        })
        .await?;
        Ok(InstanceTree { root_id: instance_id.to_owned(), all_ids })
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let store = self.store();
        run("delete_instances_atomic", || {
            Box::pin(
                sqlx::query_as(store.sql.delete_instances()).bind(ids).bind(force).fetch_one(&store.pool),
            )
        })
        .await
        .map(removed)
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let store = self.store();
        run("delete_instance_bulk", || {
            let query = sqlx::query_as(store.sql.delete_finished())
                .bind(&filter.instance_ids)
                .bind(filter.completed_before.map(signed))
                .bind(i64::from(filter.limit.unwrap_or(BULK)));
            Box::pin(query.fetch_one(&store.pool))
        })
        .await
        .map(removed)
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        const OPERATION: &str = "prune_executions";
        let one = InstanceFilter { instance_ids: Some(vec![instance_id.to_owned()]), ..Default::default() };
        let pruned = self.prune(OPERATION, &one, &options).await?;
        if pruned.instances_processed == 0 {
            return Err(unknown(OPERATION, instance_id));
        }
        Ok(pruned)
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.prune("prune_executions_bulk", &filter, &options).await
    }
}

fn unknown(operation: &str, instance: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("Instance {instance} not found"))
}
