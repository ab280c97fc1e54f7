//! Looks of consumers who do not wait, made together: those who come while one is under way share the next.

use super::pop::Want;
use super::source::{Got, MessageSource};
use crate::Error;
use crate::fuse::Batch;
use bugle_wake::{Answer, Ask, Number, Source as _};
use tokio::runtime::Handle;

/// Messages that are asked for with one look, unless one alone asks for more.
const MESSAGES_MAX: usize = 10_000;

#[derive(Clone)]
pub(super) struct Looks(pub(super) MessageSource);

impl Batch for Looks {
    type Key = ();
    type Call = Ask<Want>;
    type Answer = Result<Claim, Error>;
    type Kept = ();

    const MOST: usize = MESSAGES_MAX;

    fn weight(ask: &Ask<Want>) -> usize {
        usize::try_from(ask.most).unwrap_or(usize::MAX)
    }

    async fn make(&self, (): &(), (): &mut (), asks: Vec<Ask<Want>>) -> Vec<Self::Answer> {
        let numbers: Vec<Number> = asks.iter().map(|ask| ask.number).collect();
        match self.0.look(asks).await {
            Ok(answers) => {
                let claim =
                    |(number, answer)| Ok(Claim { source: self.0.clone(), number, answer: Some(answer) });
                numbers.into_iter().zip(answers).map(claim).collect()
            }
            Err(error) => numbers.iter().map(|_| Err(error.again())).collect(),
        }
    }
}

/// What a look brought for one consumer. If nobody takes it, what was claimed is given back.
pub(super) struct Claim {
    source: MessageSource,
    number: Number,
    answer: Option<Answer<Got>>,
}

impl Claim {
    pub(super) fn take(mut self) -> Answer<Got> {
        self.answer.take().unwrap_or_default()
    }
}

impl Drop for Claim {
    /// Whoever asked is gone.
    fn drop(&mut self) {
        let item = self.answer.take().and_then(|answer| answer.item);
        if let (Some(item), Ok(runtime)) = (item, Handle::try_current()) {
            let (source, number) = (self.source.clone(), self.number);
            runtime.spawn(async move { source.hand_back(number, item).await });
        }
    }
}
