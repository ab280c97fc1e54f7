//! Everything that can happen, and how stateright asks for it.
use crate::configuration::Configuration;
use crate::properties;
use crate::rules::Variation;
use crate::state::{QUEUES, State};
use stateright::{Model, Property};

/// *Prompt* actions are steps of something under way: milliseconds. *Environment* actions happen or do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    // Prompt.
    Transact { producer: u8 },
    HandBack { node: u8 },
    Step { node: u8 },
    ReadInbox { node: u8 },
    NoticeLoss { node: u8 },
    // Environment.
    Begin { producer: u8 },
    Abort { producer: u8 },
    Arrive { node: u8, queue: u8 },
    Cancel { node: u8, queue: u8 },
    LetGo { node: u8 },
    LeaveLate { node: u8 },
    LocalWake { node: u8 },
    Heartbeat { node: u8 },
    Crash { node: u8 },
    LoseSession { node: u8 },
    RollBackClaim { node: u8 },
    Abandon { row: u8 },
    Tick,
}

impl Configuration {
    pub(crate) fn prompt_actions(&self, actions: &mut Vec<Action>) {
        actions.extend(self.producer_numbers().map(|producer| Action::Transact { producer }));
        for node in self.node_numbers() {
            actions.extend([
                Action::HandBack { node },
                Action::Step { node },
                Action::ReadInbox { node },
                Action::NoticeLoss { node },
            ]);
        }
    }

    pub(crate) fn environment_actions(&self, actions: &mut Vec<Action>) {
        for producer in self.producer_numbers() {
            actions.extend([Action::Begin { producer }, Action::Abort { producer }]);
        }
        for node in self.node_numbers() {
            for queue in 0..QUEUES {
                actions.extend([Action::Arrive { node, queue }, Action::Cancel { node, queue }]);
            }
            if self.rules.vary(Variation::LateLeave) {
                actions.push(Action::LeaveLate { node });
            }
            actions.extend([
                Action::LetGo { node },
                Action::LocalWake { node },
                Action::Heartbeat { node },
                Action::Crash { node },
                Action::LoseSession { node },
                Action::RollBackClaim { node },
            ]);
        }
        actions.extend(self.numbered_plans().map(|(row, _)| Action::Abandon { row }));
        actions.push(Action::Tick);
    }

    /// The state after an action; `None` if it cannot happen now.
    pub(crate) fn after(&self, state: &State, action: Action) -> Option<State> {
        let after = self.after_unsorted(state, action)?;
        Some(if self.symmetric { self.representative(&after) } else { after })
    }

    pub(crate) fn after_unsorted(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        match action {
            Action::Transact { producer } => self.transact(&mut state, producer),
            Action::HandBack { node } => self.hand_back(&mut state, node),
            Action::Step { node } => self.step(&mut state, node),
            Action::ReadInbox { node } => self.read_inbox(&mut state, node),
            Action::NoticeLoss { node } => self.notice_loss(state.node_mut(node)),
            Action::Begin { producer } => self.begin(&mut state, producer),
            Action::Abort { producer } => self.abort(&mut state, producer),
            Action::Arrive { node, queue } => self.arrive(&mut state, node, queue),
            Action::Cancel { node, queue } => Self::cancel(&mut state, node, queue),
            Action::LetGo { node } => self.let_go(&mut state, node),
            Action::LeaveLate { node } => self.leave_late(&mut state, node),
            Action::LocalWake { node } => Self::wake_locally(&mut state, node),
            Action::Heartbeat { node } => Self::heartbeat(&mut state, node),
            Action::Crash { node } => Self::crash(&mut state, node),
            Action::LoseSession { node } => Self::lose_session(&mut state, node),
            Action::RollBackClaim { node } => Self::roll_back_claim(&mut state, node),
            Action::Abandon { row } => Self::abandon(&mut state, row),
            Action::Tick => self.tick(&mut state),
        }?;
        Some(state)
    }
}

impl Model for Configuration {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.first_state()]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        self.prompt_actions(actions);
        self.environment_actions(actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.after(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(&self.rules)
    }
}
