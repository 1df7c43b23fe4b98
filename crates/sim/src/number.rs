//! Converts counts to floats, for arithmetic.

#[expect(clippy::cast_precision_loss, reason = "all counts are far below 2^52")]
pub(crate) fn to_float(count: u64) -> f64 {
    count as f64
}
