//! What a command said last on its standard error.

use bugle::limits::ERROR_MESSAGE_BYTES_MAX;
use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;

/// What the command started may hold its standard error open for ever: after its end it is listened to for this long.
const AFTER_THE_END: Duration = Duration::from_millis(200);

/// Passes a command's standard error on and keeps its end.
pub(super) struct StderrTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinHandle<()>,
}

impl StderrTail {
    pub(super) fn follow(stderr: Option<ChildStderr>) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let reader = tokio::spawn({
            let kept = kept.clone();
            async move {
                let Some(mut stderr) = stderr else { return };
                let mut chunk = vec![0; 4096];
                while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
                    let _ = std::io::stderr().lock().write_all(&chunk[..read]);
                    keep(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), &chunk[..read]);
                }
            }
        });
        Self { kept, reader }
    }

    /// The end of what it said; called once the command has ended.
    pub(super) async fn end(self) -> String {
        let mut reader = self.reader;
        if tokio::time::timeout(AFTER_THE_END, &mut reader).await.is_err() {
            reader.abort();
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(kept.make_contiguous()).trim().to_owned();
        // A byte that is no UTF-8 became three.
        let surplus = text.len().saturating_sub(ERROR_MESSAGE_BYTES_MAX);
        text[text.ceil_char_boundary(surplus)..].to_owned()
    }
}

fn keep(kept: &mut VecDeque<u8>, chunk: &[u8]) {
    kept.extend(chunk);
    let surplus = kept.len().saturating_sub(ERROR_MESSAGE_BYTES_MAX);
    kept.drain(..surplus);
}
