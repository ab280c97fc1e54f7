//! The workflows that are measured. Steps of one level run on the one node, those of the next on the other: every parent is settled on
//! another node than the one that claims its children.

/// One workflow.
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) yaml: &'static str,
    pub(super) steps: usize,
    /// Steps that must run one after the other.
    pub(super) stages: usize,
}

pub(super) const SHAPES: [Shape; 3] = [
    Shape {
        name: "linear, 4 steps",
        yaml: "
name: linear
identity: always_new
steps:
  - { name: a, queue: left }
  - { name: b, queue: right, after: [a] }
  - { name: c, queue: left, after: [b] }
  - { name: d, queue: right, after: [c] }
",
        steps: 4,
        stages: 4,
    },
    Shape {
        name: "diamond, 4 steps",
        yaml: "
name: diamond
identity: always_new
steps:
  - { name: a, queue: left }
  - { name: b, queue: right, after: [a] }
  - { name: c, queue: right, after: [a] }
  - { name: d, queue: left, after: [b, c] }
",
        steps: 4,
        stages: 3,
    },
    Shape {
        name: "DAG, 7 steps",
        yaml: "
name: dag
identity: always_new
steps:
  - { name: a, queue: left }
  - { name: b, queue: right, after: [a] }
  - { name: c, queue: right, after: [a] }
  - { name: d, queue: right, after: [a] }
  - { name: e, queue: left, after: [b, c] }
  - { name: f, queue: left, after: [c, d] }
  - { name: g, queue: right, after: [e, f] }
",
        steps: 7,
        stages: 4,
    },
];

/// As many at once as there are, on one node.
pub(super) const BURST: Shape = Shape {
    name: "burst",
    yaml: "
name: burst
identity: always_new
steps:
  - { name: a, queue: burst }
  - { name: b, queue: burst, after: [a] }
  - { name: c, queue: burst, after: [b] }
  - { name: d, queue: burst, after: [c] }
",
    steps: 4,
    stages: 4,
};

/// What each of many idle namespaces has.
pub(super) const IDLE: &str = "
name: idle
identity: always_new
steps:
  - { name: a, queue: steps }
";

/// Every handler of these workflows.
pub(in super::super) const HANDLERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
