use proptest::prelude::*;

use super::*;

fn number(text: &str) -> Number {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn is_multiple(value: &str, divisor: &str) -> bool {
    Decimal::from_number(&number(value)).is_multiple_of(&Divisor::from_number(&number(divisor)).unwrap())
}

/// Formats `mantissa * 10^-places` in one of JSON's notations.
fn format_number(mantissa: i64, places: u8, notation: u8) -> String {
    let sign = if mantissa < 0 { "-" } else { "" };
    let places = usize::from(places);
    match notation {
        0 => format!("{mantissa}e-{places}"),
        1 => format!("{mantissa}.000E-{places:05}"),
        // 0000 is not valid JSON.
        2 if mantissa != 0 => format!("{mantissa}000e-{}", places + 3),
        _ => {
            let digits = format!("{:0>width$}", mantissa.unsigned_abs(), width = places + 1);
            let (whole, fraction) = digits.split_at(digits.len() - places);
            format!("{sign}{whole}.{fraction}00")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn decimals_compare_like_integers_of_the_same_scale(
        left in prop_oneof![-1000..1000_i64, any::<i32>().prop_map(i64::from)],
        right in prop_oneof![-1000..1000_i64, any::<i32>().prop_map(i64::from)],
        places in (0..6_u8, 0..6_u8),
        notations in (0..4_u8, 0..4_u8),
    ) {
        let scaled = |mantissa: i64, places: u8| i128::from(mantissa) * 10_i128.pow(u32::from(9 - places));
        let (a, b) = (scaled(left, places.0), scaled(right, places.1));
        let left = number(&format_number(left, places.0, notations.0));
        let right = number(&format_number(right, places.1, notations.1));
        let (left, divisor, right) = (Decimal::from_number(&left), Divisor::from_number(&right), Decimal::from_number(&right));
        prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        prop_assert_eq!(left == right, a == b);
        prop_assert_eq!(left.is_integer(), a % 1_000_000_000 == 0);
        let keys = [left, right].map(|decimal| {
            let mut key = Vec::new();
            decimal.write_into(&mut key);
            key
        });
        prop_assert_eq!(keys[0] == keys[1], a == b);
        if b > 0 {
            prop_assert_eq!(left.is_multiple_of(&divisor.unwrap()), a % b == 0);
        }
    }
}

#[test]
fn numbers_of_any_length_and_exponent_are_exact() {
    let long = |last: char| format!("0.{}{last}", "9".repeat(9_990));
    assert!(Decimal::from_number(&number(&long('1'))) < Decimal::from_number(&number(&long('2'))));
    assert!(Decimal::from_number(&number("1e-999999999")) > Decimal::from_number(&number("0")));
    assert!(Decimal::from_number(&number("-1e999999999")) < Decimal::from_number(&number("-1e400")));
    assert!(Decimal::from_number(&number("1e99999999999999999999")) > Decimal::from_number(&number("1e400")));
    assert_eq!(Decimal::from_number(&number("10e399")), Decimal::from_number(&number("1e400")));
    assert_eq!(Decimal::from_number(&number("-0.00e5")), Decimal::from_number(&number("0")));
    assert!(is_multiple("1e999999999", "0.01") && is_multiple("1e999999999", "1024"));
    assert!(is_multiple("7e123", "7") && is_multiple("7e124", "7") && !is_multiple("1e999999999", "7"));
    assert!(!is_multiple("1e-999999999", "0.01") && is_multiple("0", "0.01") && is_multiple("0e-9", "7"));
    assert!(is_multiple(&"7".repeat(10_000), "7") && !is_multiple(&format!("{}8", "7".repeat(10_000)), "7"));
    let most = "9".repeat(37);
    assert!(is_multiple(&format!("{most}{most}"), &most) && !is_multiple(&format!("{most}1"), &most));
    // A multiple of 2^122 needs all 122 zeros.
    let power = (1_u128 << 122).to_string();
    assert!(is_multiple("1e122", &power) && is_multiple("1e9999", &power) && !is_multiple("1e121", &power));
    assert!(Divisor::from_number(&number(&"9".repeat(38))).is_none());
    assert!(Divisor::from_number(&number(&format!("0.00{}000e50", "9".repeat(37)))).is_some());
}
