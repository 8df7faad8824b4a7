//! What waits for its answer on a connection: of several that wait together nobody
//! knows which one is answered, so they are counted and forgotten.

/// Those that are not answered.
#[derive(Default)]
pub(super) enum Waiting<T> {
    /// None.
    #[default]
    Nobody,
    /// The only one.
    One(T),
    /// So many.
    Several(u64),
}

impl<T> Waiting<T> {
    /// One more waits.
    pub(super) fn push(&mut self, one: T) {
        *self = match std::mem::take(self) {
            Self::Nobody => Self::One(one),
            Self::One(_) => Self::Several(2),
            Self::Several(count) => Self::Several(count + 1),
        };
    }

    /// Nobody waits any more; who did.
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}
