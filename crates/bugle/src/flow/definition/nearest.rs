//! What somebody may have meant who misspelt a name.

use super::limits::STEP_NAME_BYTES_MAX;

/// The word of `known` that is most like `word`, if one is like it at all.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody means a name by a page of text, and to compare it with a thousand names takes minutes.
    if word.len() > 2 * STEP_NAME_BYTES_MAX {
        return None;
    }
    let lower = word.to_lowercase();
    let likeness = |other: &str| strsim::osa_distance(&lower, &other.to_lowercase());
    // A third of the letters wrong is still a likeness; more is another word.
    let most = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter(|other| other.len().abs_diff(word.len()) <= 4 * most)
        .map(|other| (likeness(other), other))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_the_one_that_was_meant() {
        let known = ["reserve", "pay", "notify_each"];
        assert_eq!(nearest("reserv", known), Some("reserve"));
        assert_eq!(nearest("Pay", known), Some("pay"));
        assert_eq!(nearest("notify-each", known), Some("notify_each"));
        assert_eq!(nearest("ship", known), None);
        assert_eq!(nearest("", known), None);
    }
}
