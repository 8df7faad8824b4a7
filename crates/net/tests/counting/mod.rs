//! The system's allocator, counting: for tests that something allocates
//! nothing. Each thread counts its own, as the test's harness allocates beside it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// How often this thread has allocated anything since it began.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

struct Counting;

thread_local! {
    // Neither made nor destroyed: to touch it allocates nothing.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator with the caller's own
// arguments, which the caller promises to be valid; counting touches no memory
// but the counter.
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
