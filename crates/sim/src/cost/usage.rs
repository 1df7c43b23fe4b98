//! Converts usage into dollars.

use serde::Serialize;

use super::prices::{Price, PriceList};

/// The memory of each function in the stack.
const MEMORY_GB: f64 = 0.25;
/// The mean duration of a call to the target: an assumption.
pub const CALL_SECONDS: f64 = 0.3;
/// Lambda's own log lines for an invocation: `START`, `END` and `REPORT` ("Monitoring Lambda functions").
const LAMBDA_LOG_BYTES: f64 = 2.0 * 400.0;

/// The processor architecture of the functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Architecture {
    /// The stack's default.
    #[default]
    Arm64,
    X86_64,
}

/// Invocations of all functions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Invocations {
    pub count: f64,
    /// The total billed duration.
    pub seconds: f64,
}

/// The usage that AWS charges for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Requests to standard queues. SQS bills a request with a payload above 64 KB as several ("Amazon SQS pricing").
    pub sqs_requests: f64,
    /// Requests included in `sqs_requests` whose messages have a group, for which SQS charges extra.
    pub sqs_fair_requests: f64,
    /// Requests to FIFO queues.
    pub sqs_fifo_requests: f64,
    pub invocations: Invocations,
    /// The size of the functions' own log lines; Lambda's log lines are added per invocation.
    pub log_bytes: f64,
}

/// The charges for a given usage, in dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bill {
    pub sqs_requests: f64,
    pub lambda_requests: f64,
    pub lambda_duration: f64,
    pub logs: f64,
}

impl Invocations {
    /// Returns memory × time, at the stack's 256 MB per function.
    pub fn gb_seconds(&self) -> f64 {
        self.seconds * MEMORY_GB
    }
}

impl Usage {
    /// Returns the size of the logs in GB, including Lambda's own lines.
    pub fn log_gb(&self) -> f64 {
        (self.log_bytes + self.invocations.count * LAMBDA_LOG_BYTES) / 1e9
    }

    /// Returns the usage for `factor` times as many messages.
    pub fn scaled_by(self, factor: f64) -> Self {
        let Invocations { count, seconds } = self.invocations;
        Self {
            sqs_requests: self.sqs_requests * factor,
            sqs_fair_requests: self.sqs_fair_requests * factor,
            sqs_fifo_requests: self.sqs_fifo_requests * factor,
            invocations: Invocations { count: count * factor, seconds: seconds * factor },
            log_bytes: self.log_bytes * factor,
        }
    }

    /// Returns the charges at these prices, without free tiers.
    pub fn compute_bill(&self, prices: &PriceList, architecture: Architecture) -> Bill {
        let Price { dollars: gb_second, .. } = match architecture {
            Architecture::Arm64 => &prices.lambda_gb_second_arm64,
            Architecture::X86_64 => &prices.lambda_gb_second_x86_64,
        };
        Bill {
            sqs_requests: self.sqs_requests / 1e6 * prices.sqs_million_requests.dollars
                + self.sqs_fair_requests / 1e6 * prices.sqs_fair_million_requests.dollars
                + self.sqs_fifo_requests / 1e6 * prices.sqs_fifo_million_requests.dollars,
            lambda_requests: self.invocations.count / 1e6 * prices.lambda_million_requests.dollars,
            lambda_duration: self.invocations.gb_seconds() * gb_second,
            logs: self.log_gb() * prices.logs_gb.dollars,
        }
    }
}

impl Bill {
    pub fn total(&self) -> f64 {
        self.sqs_requests + self.lambda_requests + self.lambda_duration + self.logs
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cost::Prices;

    fn usage() -> Usage {
        let invocations = Invocations { count: 3e6, seconds: 5e5 };
        Usage {
            sqs_requests: 5e6,
            sqs_fair_requests: 1e6,
            sqs_fifo_requests: 2e6,
            invocations,
            log_bytes: 1e9,
        }
    }

    #[test]
    fn each_bill_item_is_its_quantity_times_its_price() {
        let bill = usage().compute_bill(&Prices::shipped_list().prices, Architecture::Arm64);
        // 5 million at $0.40, a million of them at $0.10 more, and 2 million at $0.50
        assert_eq!((bill.sqs_requests, bill.lambda_requests), (3.1, 3.0 * 0.2));
        // 500,000 s × 0.25 GB = 125,000 GB-s
        assert!((bill.lambda_duration - 125_000.0 * 0.000_013_333_4).abs() < 1e-9);
        assert!((bill.logs - (1.0 + 3.0 * 0.8) * 0.5).abs() < 1e-9);
        assert!((bill.total() - (3.1 + 0.6 + 1.666_675 + 1.7)).abs() < 1e-9);
        assert_eq!(
            usage()
                .scaled_by(2.0)
                .compute_bill(&Prices::shipped_list().prices, Architecture::Arm64)
                .sqs_requests,
            6.2
        );
    }

    proptest! {
        #[test]
        fn a_higher_price_never_reduces_the_bill(factor in 1.0_f64..10.0, which in 0..6_usize) {
            let cheap = Prices::shipped_list().prices;
            let mut expensive = cheap.clone();
            let price = match which {
                0 => &mut expensive.sqs_million_requests,
                1 => &mut expensive.lambda_million_requests,
                2 => &mut expensive.lambda_gb_second_arm64,
                3 => &mut expensive.sqs_fifo_million_requests,
                4 => &mut expensive.sqs_fair_million_requests,
                _ => &mut expensive.logs_gb,
            };
            price.dollars *= factor;
            let [cheap, expensive] = [cheap, expensive].map(|prices| usage().compute_bill(&prices, Architecture::Arm64).total());
            prop_assert!(expensive >= cheap);
        }
    }
}
