//! AWS's charges: list prices as data, and the arithmetic that the docs and `redeliver simulate` share.

mod prices;
mod usage;

#[cfg(test)]
mod tests;

pub use prices::{Price, PriceList, Prices};
pub use usage::{Architecture, Bill, CALL_SECONDS, Invocations, Usage};
