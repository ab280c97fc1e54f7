//! What the wake engine has counted.

use super::{Kind, Text};
use bugle_wake::Node;

pub(super) fn write(node: &Node, text: &mut Text) {
    let (status, counters) = (node.status(), node.counters());
    text.family("bugle_intentions", Kind::Gauge, "Consumers that wait.");
    text.sample(&[], status.intentions);
    text.family("bugle_listening", Kind::Gauge, "1: a producer can ring for this node.");
    text.sample(&[], u8::from(status.listening));
    text.family("bugle_alert", Kind::Gauge, "1: it looks at short intervals after a fault.");
    text.sample(&[], u8::from(status.alert));
    text.family(
        "bugle_notify_queue_usage",
        Kind::Gauge,
        "How full PostgreSQL's queue of notifications was at the last heartbeat, from 0 to 1.",
    );
    text.sample(&[], status.notify_usage);
    text.family(
        "bugle_wake_latency_seconds",
        Kind::Histogram,
        "From a ring heard to the hand-out of what it announced.",
    );
    text.histogram(&[], &counters.wake_latency);
    for (name, value, meaning) in counters.table() {
        text.family(&format!("bugle_wake_{name}_total"), Kind::Counter, meaning);
        text.sample(&[], value);
    }
}
