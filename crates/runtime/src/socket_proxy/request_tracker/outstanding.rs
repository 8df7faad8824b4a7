//! Outstanding requests of a connection. If several wait together, the answered one is unknown, so
//! they are only counted.

/// Requests without an answer.
#[derive(Default)]
pub(super) enum Outstanding<T> {
    /// None.
    #[default]
    None,
    /// Exactly one.
    One(T),
    /// Number of several.
    Several(u64),
}

impl<T> Outstanding<T> {
    /// Adds a request.
    pub(super) fn push(&mut self, one: T) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(one),
            Self::One(_) => Self::Several(2),
            Self::Several(count) => Self::Several(count + 1),
        };
    }

    /// Removes and returns all requests.
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}
