//! Judges a history: the rules I1 to I11 and I14.
