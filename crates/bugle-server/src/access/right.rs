//! What routes need of the rights that keys have.

use bugle::access::Right;

/// What a route needs: the type is the argument of its scope.
pub(crate) trait Need: Send + Sync + 'static {
    /// All rights of one of these. None: it needs nobody's leave.
    const RIGHTS: Rights;
}

/// Several ways to be allowed something, each with all the rights that it takes.
pub(crate) type Rights = &'static [&'static [Right]];

macro_rules! needs {
    ($($(#[doc = $doc:literal])+ $name:ident: $rights:expr;)*) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug)]
            pub(crate) enum $name {}
            impl Need for $name {
                const RIGHTS: Rights = $rights;
            }
        )*
    };
}

needs! {
    /// Nobody's leave: whether the server lives.
    Public: &[];
    /// To write messages, to start runs and to send signals.
    Push: &[&[Right::Push]];
    /// To claim and settle messages and steps.
    Pop: &[&[Right::Pop]];
    /// To push and settle in one transaction.
    Transact: &[&[Right::Push, Right::Pop]];
    /// To look.
    Inspect: &[&[Right::Inspect]];
    /// To tell a queue its options, and to define workflows: more than a producer or a consumer alone may, and no more than Queen's clients do that are both.
    Configure: &[&[Right::Push, Right::Pop], &[Right::Admin]];
    /// To move a group, and to put dead letters back.
    Move: &[&[Right::Pop], &[Right::Admin]];
    /// To delete, to switch maintenance, and to change runs by hand.
    Admin: &[&[Right::Admin]];
}
