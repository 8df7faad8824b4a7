//! Heap of distant events, ordered by time and insertion.

use super::Pending;

/// Number of children per node. Four children fit two cache lines and halve the depth of a binary
/// heap.
const ARITY: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Heap<E> {
    heap: Vec<Pending<E>>,
}

impl<E> Heap<E> {
    pub const fn new() -> Self {
        Self { heap: Vec::new() }
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.heap.capacity()
    }

    pub fn peek(&self) -> Option<&Pending<E>> {
        self.heap.first()
    }

    pub fn push(&mut self, pending: Pending<E>) {
        self.heap.push(pending);
        self.sift_up(self.heap.len() - 1);
    }

    /// Removes the first event if `wanted` holds for it.
    pub fn pop_if(&mut self, wanted: impl FnOnce(&Pending<E>) -> bool) -> Option<Pending<E>> {
        if !wanted(self.heap.first()?) {
            return None;
        }
        let first = self.heap.swap_remove(0);
        self.sift_down();
        Some(first)
    }

    fn sift_up(&mut self, mut node: usize) {
        while node > 0 {
            let parent = (node - 1) / ARITY;
            if self.heap[parent].key() <= self.heap[node].key() {
                return;
            }
            self.heap.swap(parent, node);
            node = parent;
        }
    }

    /// Restores heap order below the root, which came from the bottom and most likely returns
    /// there: the hole sinks to a leaf without comparisons, then the node rises from there.
    fn sift_down(&mut self) {
        let mut node = 0;
        loop {
            let first = node * ARITY + 1;
            let children = match self.heap.len() {
                len if first + ARITY <= len => &self.heap[first..first + ARITY],
                len if first < len => &self.heap[first..],
                _ => break,
            };
            let mut least = 0;
            let mut key = children[0].key();
            for (i, child) in children.iter().enumerate().skip(1) {
                if child.key() < key {
                    (least, key) = (i, child.key());
                }
            }
            self.heap.swap(node, first + least);
            node = first + least;
        }
        self.sift_up(node);
    }
}
