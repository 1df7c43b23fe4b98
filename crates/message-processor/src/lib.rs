//! redeliver-message-processor.
