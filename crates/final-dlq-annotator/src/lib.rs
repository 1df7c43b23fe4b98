//! redeliver-final-dlq-annotator.
