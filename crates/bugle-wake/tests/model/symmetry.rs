//! States that differ only by the numbers of like nodes or like producers are one: the representative is kept.
use crate::configuration::Configuration;
use crate::set::Set;
use crate::state::{Row, State, Transaction};

impl Configuration {
    pub(crate) fn representative(&self, state: &State) -> State {
        let mut sorted = self.sort_nodes(state);
        if self.producers_are_alike() {
            self.sort_producers(&mut sorted);
        }
        sorted
    }

    fn sort_nodes(&self, state: &State) -> State {
        let mut order = [0u8, 1, 2];
        order[..usize::from(self.nodes)].sort_by_key(|number| *state.node(*number));
        let mut renamed = [0u8; 3];
        for (new, old) in (0u8..).zip(order) {
            renamed[usize::from(old)] = new;
        }
        let rename = |number: u8| renamed[usize::from(number)];
        let rename_listeners = |transaction: &mut Transaction| {
            if let Transaction::VisibleWillRing(listeners) = transaction {
                *listeners = listeners.iter().map(rename).collect();
            }
        };

        let mut sorted = *state;
        sorted.nodes = order.map(|old| *state.node(old));
        sorted.nodes.iter_mut().for_each(|node| rename_listeners(&mut node.release));
        sorted.producers.iter_mut().for_each(rename_listeners);
        for row in &mut sorted.rows {
            match row {
                Row::Locked(owner) | Row::Claimed(owner, _) => *owner = rename(*owner),
                Row::Absent | Row::InFlight | Row::Ready | Row::Gone => {}
            }
        }
        sorted
    }

    /// Several producers, each of one row, all rows of one queue and one due time.
    fn producers_are_alike(&self) -> bool {
        let first = self.plans[0];
        usize::from(self.producers) == self.plans.len()
            && self.producers > 1
            && self
                .numbered_plans()
                .all(|(row, plan)| plan.producer == row && plan.queue == first.queue && plan.due == first.due)
    }

    fn sort_producers(&self, state: &mut State) {
        let unsorted = *state;
        let pair = |number: u8| (unsorted.producers[usize::from(number)], unsorted.row(number));
        let mut order: Vec<u8> = self.producer_numbers().collect();
        order.sort_by_key(|number| pair(*number));
        for (new, old) in order.iter().enumerate() {
            (state.producers[new], state.rows[new]) = pair(*old);
        }
        let rename = |rows: Set| -> Set {
            (0u8..).zip(&order).filter(|(_, old)| rows.has(**old)).map(|(new, _)| new).collect()
        };
        for node in &mut state.nodes {
            node.got = rename(node.got);
            node.released = rename(node.released);
            node.snapshot = node.snapshot.map(rename);
        }
    }
}
