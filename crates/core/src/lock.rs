//! A lock that outlives a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex even if an owner panicked: the values that we lock are consistent after each statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
