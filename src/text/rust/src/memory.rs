//! What happens where memory ends. Rust's own answer is to abort, which looks
//! like a bug and dumps core; the crates below have no way to fail instead.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Gives memory of the caller's to the system; false: nothing is left to give.
pub type Give = extern "C" fn() -> bool;

static GIVE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// From now on memory that ends is asked for again while `give` gives some.
pub fn ask_where_memory_ends(give: Give) {
    GIVE.store(give as *mut (), Ordering::Release);
}

fn was_given() -> bool {
    let give = GIVE.load(Ordering::Acquire);
    !give.is_null()
        && unsafe { std::mem::transmute::<*mut (), Give>(give) }()
}

/// The system's allocator, but that, where nobody gives any, it ends the
/// process with one line and the status of work that could not be done.
struct Memory;

#[global_allocator]
static MEMORY: Memory = Memory;

const LINE: &[u8] = b"winnow: memory does not suffice for text\n";
const FAILURE: i32 = 1;

/// Without destructors: other threads may be in the middle of anything.
#[cold]
fn end_process() -> ! {
    unsafe {
        // Nobody is left to be told that this could not be told.
        libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len());
        libc::_exit(FAILURE)
    }
}

fn present(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    loop {
        let memory = allocate();
        if !memory.is_null() {
            return memory;
        }
        if !was_given() {
            end_process()
        }
    }
}

unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        present(|| unsafe { System.alloc(layout) })
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        present(|| unsafe { System.alloc_zeroed(layout) })
    }
    unsafe fn realloc(
        &self,
        memory: *mut u8,
        layout: Layout,
        num_bytes: usize,
    ) -> *mut u8 {
        present(|| unsafe { System.realloc(memory, layout, num_bytes) })
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }
}
