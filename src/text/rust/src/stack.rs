//! Room for what recurses as deep as its input nests.

use std::thread;

use crate::failure::{fenced, Code, Failure, Outcome};

/// Only the part of the stack that is touched costs memory.
const STACK_BYTES: usize = 1 << 30;

/// Runs `body` on a thread whose stack hostile input does not exhaust.
pub fn on_large_stack<T: Send>(
    body: impl FnOnce() -> Outcome<T> + Send,
) -> Outcome<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || fenced(body))
            .map_err(|error| {
                Failure::new(
                    Code::Io,
                    format!(
                        "memory does not suffice for a thread, for now: {error}"
                    ),
                )
            })?;
        worker.join().expect("the thread's body is fenced")
    })
}
