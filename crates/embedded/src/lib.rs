//! redeliver-embedded.
