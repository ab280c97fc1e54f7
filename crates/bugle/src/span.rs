//! Lengths of time as people write them: `500ms`, `30s`, `1h30m`.

use std::time::Duration;

/// Reads a length of time.
pub fn parse(text: &str) -> Result<Duration, String> {
    let fault = || {
        format!(
            "{text:?} is no length of time; write a number with its unit, such as 500ms, 30s, 5m, 2h or 1d"
        )
    };
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(fault());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(fault)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let number: u64 = number.parse().map_err(|_| fault())?;
        let microseconds: u64 = match unit {
            "us" | "µs" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return Err(fault()),
        };
        let part = number.checked_mul(microseconds).map(Duration::from_micros).ok_or_else(fault)?;
        total = total.checked_add(part).ok_or_else(fault)?;
        rest = tail;
    }
    Ok(total)
}

/// A length of time in a few characters: `850ms`, `12s`, `3m`, `5h`, `9d`. Rounded down; [`exact`] is not.
#[must_use]
pub fn short(length: Duration) -> String {
    match length.as_secs() {
        0 => format!("{}ms", length.as_millis()),
        seconds @ 1..=119 => format!("{seconds}s"),
        seconds @ 120..=7_199 => format!("{}m", seconds / 60),
        seconds @ 7_200..=172_799 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// A length of time in the largest unit of which it is a whole number, so that [`parse`] gives it back: `90s`, `36h`. What is less than a
/// microsecond is left out.
#[must_use]
pub fn exact(length: Duration) -> String {
    const UNITS: [(u128, &str); 5] =
        [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
    let microseconds = length.as_micros();
    if microseconds == 0 {
        return "0s".to_owned();
    }
    UNITS.iter().find(|(unit, _)| microseconds.is_multiple_of(*unit)).map_or_else(
        || format!("{microseconds}us"),
        |(unit, letter)| format!("{}{letter}", microseconds / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_with_their_units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("200µs"), parse("200us"));
        assert_eq!(parse("200us"), Ok(Duration::from_micros(200)));
        assert_eq!(parse("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        for bad in
            ["", "5", "-5s", "5 s", "s", "5y", "1.5s", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(parse(bad).unwrap_err().contains("500ms"), "{bad}");
        }
    }

    #[test]
    fn lengths_are_shown_in_one_unit() {
        let shown: Vec<_> = [0, 999, 1_000, 119_000, 120_000, 7_200_000, 200_000_000]
            .map(|ms| short(Duration::from_millis(ms)))
            .into();
        assert_eq!(shown, ["0ms", "999ms", "1s", "119s", "2m", "2h", "2d"]);
    }

    #[test]
    fn an_exact_length_is_read_as_what_it_was() {
        for (written, shown) in [
            ("0s", "0s"),
            ("1500us", "1500us"),
            ("1500ms", "1500ms"),
            ("90s", "90s"),
            ("120s", "2m"),
            ("36h", "36h"),
            ("7d", "7d"),
        ] {
            let length = parse(written).unwrap();
            assert_eq!(exact(length), shown);
            assert_eq!(parse(shown), Ok(length));
        }
    }
}
