//! redeliver-failed-message-processor.
