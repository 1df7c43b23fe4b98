//! redeliver-aws.
