//! The C library's own functions, called for sockets that are not the stack's (dlsym with
//! RTLD_NEXT).

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Next definition of a function in the loader's order, looked up on first use.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Address, not null, if the C library has it.
    pub(crate) fn find(&self) -> Option<*mut c_void> {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return Some(found);
        }
        // SAFETY: the name ends with NUL; dlsym may be called at any time after this library is
        // loaded.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        (!found.is_null()).then_some(found)
    }
}

/// Calls the C library's `$name`, of the given type, with these arguments. `or` gives the result if
/// an old C library lacks the function: a program that probes for it finds the one of this library.
macro_rules! next {
    // A program cannot have started with a C library that lacks it.
    ($name:ident($($arg:expr),*) as $type:ty) => {
        $crate::real_fn::next!($name($($arg),*) as $type, or std::process::abort())
    };
    ($name:ident($($arg:expr),*) as $type:ty, or $missing:expr) => {{
        static NEXT: $crate::real_fn::Next = {
            const NAME: &str = concat!(stringify!($name), "\0");
            $crate::real_fn::Next::new(match std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("the name of a function has no NUL"),
            })
        };
        match NEXT.find() {
            // SAFETY: the C library declares the function with this type, and the
            // arguments are those that the program called it with.
            Some(found) => unsafe { std::mem::transmute::<*mut std::ffi::c_void, $type>(found)($($arg),*) },
            None => $missing,
        }
    }};
}
pub(crate) use next;
