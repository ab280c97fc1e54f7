//! Prometheus' text format, version 0.0.4.

use bugle_wake::Histogram;
use std::fmt::{Display, Write as _};

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family of samples is.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// Times.
    Histogram,
}

/// A text that grows family by family.
#[derive(Debug, Default)]
pub struct Text {
    text: String,
    family: String,
}

impl Text {
    /// Begins a family: the samples that follow are of it.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        name.clone_into(&mut self.family);
        // A String takes everything.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A value, with labels that tell it from others of its family.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// A histogram, left out while it is empty. Its bounds are powers of two of a microsecond.
    pub fn histogram(&mut self, labels: &[(&str, &str)], times: &Histogram) {
        let times = times.read();
        if times.count == 0 {
            return;
        }
        for (bound, count) in times.at_most {
            self.line("_bucket", labels, Some(&bound.as_secs_f64().to_string()), count);
        }
        self.line("_bucket", labels, Some("+Inf"), times.count);
        self.line("_sum", labels, None, times.sum.as_secs_f64());
        self.line("_count", labels, None, times.count);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>, value: impl Display) {
        self.text.push_str(&self.family);
        self.text.push_str(suffix);
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        for (place, (name, value)) in labels.enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{name}=\"{value}\"", if place == 0 { '{' } else { ',' });
        }
        let has_labels = self.text.ends_with('"');
        let _ = writeln!(self.text, "{} {value}", if has_labels { "}" } else { "" });
    }

    /// The text.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let mut text = Text::default();
        text.family("a_total", Kind::Counter, "How many.");
        text.sample(&[], 3);
        text.sample(&[("queue", "o\"r\\d\ner")], 4);
        text.family("b_seconds", Kind::Histogram, "How long.");
        let times = Histogram::default();
        text.histogram(&[("of", "nothing")], &times);
        times.note(Duration::from_micros(3));
        times.note(Duration::from_micros(900));
        text.histogram(&[], &times);
        let text = text.finish();
        let (begins, ends) = (
            "\
# HELP a_total How many.
# TYPE a_total counter
a_total 3
a_total{queue=\"o\\\"r\\\\d\\ner\"} 4
# HELP b_seconds How long.
# TYPE b_seconds histogram
b_seconds_bucket{le=\"0.000001\"} 0
b_seconds_bucket{le=\"0.000002\"} 0
b_seconds_bucket{le=\"0.000004\"} 1
",
            "\
b_seconds_bucket{le=\"+Inf\"} 2
b_seconds_sum 0.000903
b_seconds_count 2
",
        );
        assert!(text.starts_with(begins) && text.ends_with(ends), "{text}");
    }
}
