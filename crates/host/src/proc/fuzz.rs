//! Body of a fuzz target: contents of `/proc` about threads.

use super::{Stat, account};

/// No panic; exactly three numbers form an account.
pub(crate) fn threads(data: &[u8]) {
    if let Some(account) = account(data) {
        let text = format!("{} {} {}", account.ran_ns, account.waited_ns, account.turns);
        assert_eq!(super::account(text.as_bytes()), Some(account));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let stat = Stat(text.to_owned());
    for number in 0..60 {
        if let Some(value) = stat.field(number) {
            assert!(number >= 3, "field {number} is no number");
            assert_eq!(stat.word(number).and_then(|word| word.parse().ok()), Some(value));
        }
    }
    // The name is arbitrary, and does not affect the fields after it.
    if !text.contains(')') {
        let named = |name: &str| Stat(format!("7 ({name}) {text}"));
        let (plain, odd) = (named("a"), named("a) R (b"));
        assert!((3..60).all(|number| plain.word(number) == odd.word(number)));
    }
}
