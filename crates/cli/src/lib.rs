//! redeliver.
