//! AWS's charges: the list prices as data, and the calculations shared by the docs and `redeliver simulate`.

mod prices;
mod usage;

#[cfg(test)]
mod tests;

pub use prices::{Price, PriceList, Prices};
pub use usage::{Architecture, Bill, CALL_SECONDS, Invocations, Usage};
