//! AWS's list prices, and a user's overrides of some of them.

use redeliver_core::message::schema::{Violation, join_violations};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

const SHIPPED_PRICES: &str = include_str!("prices.json");
const SHIPPED_IS_VALID: &str = "a test reads the shipped file";

/// The list prices for one region, in the first tier, without free tiers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub region: String,
    /// The date on which the pricing pages were read: `YYYY-MM-DD`.
    pub read_on: String,
    #[serde(skip_serializing)]
    pub prices: PriceList,
}

/// The prices by name, in the units that AWS's pages use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    pub sqs_million_requests: Price,
    /// The surcharge for fair queues: messages with a group on a standard queue.
    pub sqs_fair_million_requests: Price,
    pub sqs_fifo_million_requests: Price,
    pub lambda_million_requests: Price,
    /// Memory × time on arm64.
    pub lambda_gb_second_arm64: Price,
    /// Memory × time on x86-64.
    pub lambda_gb_second_x86_64: Price,
    pub logs_gb: Price,
    pub metric_month: Price,
    pub alarm_month: Price,
    pub dashboard_month: Price,
    pub traces_million: Price,
    pub kms_key_month: Price,
    pub kms_million_requests: Price,
    pub s3_thousand_writes: Price,
    pub s3_gb_month: Price,
    pub sns_hundred_thousand_mails: Price,
}

/// A price, its unit and its source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub dollars: f64,
    pub per: String,
    /// The title of the AWS page with this price.
    pub page: String,
}

/// An error in a price file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PricesError {
    #[error("the prices are not JSON: {0}")]
    NotJson(String),
    #[error("the prices are refused: {}", join_violations(.0))]
    Refused(Vec<Violation>),
}

impl Prices {
    /// Returns the shipped prices, for us-east-1 as of [`read_on`](Self::read_on).
    pub fn shipped_list() -> Self {
        serde_json::from_str(SHIPPED_PRICES).expect(SHIPPED_IS_VALID)
    }

    /// Returns the shipped list with some prices replaced. `overrides` is a JSON object that maps names to dollars,
    /// e.g. `{"sqs_million_requests": 0.44}`.
    ///
    /// # Errors
    /// If `overrides` is not a JSON object, or has unknown names or negative amounts; the error lists all of them.
    pub fn with_overrides(overrides: &str) -> Result<Self, PricesError> {
        let overrides = redeliver_core::json::value::parse_value(overrides)
            .map_err(|error| PricesError::NotJson(error.to_string()))?;
        let Value::Object(overrides) = overrides else {
            let rule = "is not an object of prices by name";
            return Err(PricesError::Refused(vec![Violation::new("", rule)]));
        };
        let mut list: Value = serde_json::from_str(SHIPPED_PRICES).expect(SHIPPED_IS_VALID);
        let prices = list["prices"].as_object_mut().expect(SHIPPED_IS_VALID);
        let names = prices.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let has_overrides = !overrides.is_empty();
        let mut violations = Vec::new();
        for (name, amount) in overrides {
            let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            match prices.get_mut(&name) {
                None => violations
                    .push(Violation::new(pointer, format!("is not a price; the prices are {names}"))),
                Some(_) if !amount.as_f64().is_some_and(|dollars| dollars.is_finite() && dollars >= 0.0) => {
                    violations.push(Violation::new(pointer, "is not an amount of dollars, 0 or more"));
                }
                Some(price) => price["dollars"] = amount,
            }
        }
        if !violations.is_empty() {
            return Err(PricesError::Refused(violations));
        }
        let mut prices: Self = serde_json::from_value(list).expect(SHIPPED_IS_VALID);
        if has_overrides {
            prices.region.push_str(" (some replaced)");
        }
        Ok(prices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides_error(overrides: &str) -> String {
        Prices::with_overrides(overrides).unwrap_err().to_string()
    }

    #[test]
    fn the_shipped_list_is_complete_and_names_the_page_of_each_price() {
        let Prices { region, read_on, .. } = Prices::shipped_list();
        assert_eq!(region, "us-east-1");
        assert_eq!(read_on.len(), "2026-01-01".len());
        let shipped: Value = serde_json::from_str(SHIPPED_PRICES).unwrap();
        let prices = shipped["prices"].as_object().unwrap();
        assert_eq!(prices.len(), 16);
        for (name, price) in prices {
            let Price { dollars, per, page } = serde_json::from_value(price.clone()).unwrap();
            assert!(dollars > 0.0 && !per.is_empty() && page.ends_with("pricing"), "{name}");
        }
    }

    #[test]
    fn an_override_replaces_only_its_own_price() {
        let changed = Prices::with_overrides(r#"{"logs_gb": 0.63, "alarm_month": 0}"#).unwrap();
        assert_eq!((changed.prices.logs_gb.dollars, changed.prices.alarm_month.dollars), (0.63, 0.0));
        assert_eq!(changed.prices.sqs_million_requests, Prices::shipped_list().prices.sqs_million_requests);
        assert_eq!(Prices::with_overrides("{}"), Ok(Prices::shipped_list()));
    }

    #[test]
    fn an_invalid_or_unknown_override_is_rejected_with_its_json_pointer() {
        let error =
            overrides_error(r#"{"a/b~": 1, "logs_gb": -1, "alarm_month": "0.1", "metric_month": 1e999}"#);
        for pointer in [
            "/a~1b~0 is not a price; the prices are alarm_month, dashboard_month, ",
            "/logs_gb is not",
            "/alarm_month is not",
            "/metric_month is not",
        ] {
            assert!(error.contains(pointer), "{pointer} in {error}");
        }
        assert_eq!(
            overrides_error("[]"),
            "the prices are refused: (whole document) is not an object of prices by name"
        );
        assert!(overrides_error("{").starts_with("the prices are not JSON: "));
    }
}
