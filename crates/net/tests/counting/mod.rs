//! Counting allocator over the system's, for tests that code does not allocate. Each thread has its
//! own count, because the test harness allocates concurrently.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Allocations of this thread since its start.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

struct Counting;

thread_local! {
    // A const-initialized cell without destructor: access does not allocate.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator with the caller's arguments, which the
// caller guarantees to be valid; counting touches only the counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
