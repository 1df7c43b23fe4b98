//! `redeliver simulate`: its calculations, measurements, pictures and errors.

use super::*;

/// A policy without a circuit breaker, so that all numbers follow from the delays.
const FIXED_POLICY: &[u8] = br#"{"max_attempts":3,"circuit_breaker":false,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;

fn run_simulate(policy: &ScratchFile, more: &[&str]) -> Output {
    run_redeliver(&[&["simulate", "--policy", policy.name()], more].concat())
}

/// Returns the error message for wrong usage.
fn usage_error_message(policy: &ScratchFile, more: &[&str]) -> String {
    error_output(2, policy, more)
}

/// Returns the error message for an unusable file.
fn failure_message(policy: &ScratchFile, more: &[&str]) -> String {
    error_output(1, policy, more)
}

fn error_output(code: i32, policy: &ScratchFile, more: &[&str]) -> String {
    let output = run_simulate(policy, more);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{more:?}");
    stderr_text(&output)
}

#[test]
fn simulated_numbers_for_a_fixed_delay_are_exact() {
    let policy = ScratchFile::new("simulate-fixed.json", FIXED_POLICY);
    let report =
        json_report(&run_simulate(&policy, &["--messages", "600", "--outage", "10m", "--format", "json"]));
    let planned = &report["policies"][0];
    let schedule: Vec<_> =
        planned["schedule"].as_array().unwrap().iter().map(|at| &at["median_seconds"]).collect();
    assert_eq!(schedule, [60, 120, 180]);
    // One message per second on average. The last attempt is 180 s later, so messages from the last 180 seconds
    // survive.
    let measured = &planned["measured"];
    assert_eq!(
        (&measured["processed"], &measured["dead_lettered"]["RETRY_ATTEMPT_EXCEEDED"]),
        (&200.into(), &400.into())
    );
    let ten_minutes =
        planned["survival"].as_array().unwrap().iter().find(|one| one["outage_seconds"] == 600).unwrap();
    assert_eq!(ten_minutes["at_a_random_moment"], 0.3);
    assert_eq!(ten_minutes["from_its_beginning"], 0.0);
    // 403 × 4 calls, and 2 to 4 for each survivor, the last of which succeeds.
    assert_eq!((&measured["calls"], &measured["wasted"]["while_down"]), (&2196.into(), &1996.into()));
    assert_eq!(measured["after_return"]["peak_per_second"], 15);
    assert_eq!(measured["after_return"]["p99_per_second"], 15);
    assert_eq!(measured["drain_seconds"], 59);
    assert_eq!(planned["span"]["worst_case_seconds"], 180 + 4 * 60);
    assert!(measured["circuit_breaker"].is_null() && planned["without_circuit_breaker"].is_null());
    assert!(ten_minutes["held"].is_null() && planned["span"]["hold_seconds_max"].is_null());
}

/// The comparison shows a team whether it needs redeliver.
#[test]
fn simulation_compares_policies_with_plain_sqs() {
    let policy = ScratchFile::new("simulate-plain.json", FIXED_POLICY);
    let picture = ScratchFile::new("simulate-plain.svg", b"");
    let plain = ["--messages", "600", "--compare-plain", "180s,5", "--plot", picture.name()];
    let report = json_report(&run_simulate(&policy, &[&plain[..], &["--format", "json"]].concat()));
    let queue = &report["plain_sqs"][0];
    assert_eq!((&queue["visibility_seconds"], &queue["receives"]), (&180.into(), &5.into()));
    let measured = &queue["measured"];
    assert_eq!((&measured["processed"], &measured["wasted"]["while_down"]), (&600.into(), &1283.into()));
    assert_eq!(measured["drain_seconds"], 180);
    let tables = String::from_utf8(run_simulate(&policy, &plain).stdout).unwrap();
    let sentence = "\nSQS 3m,5 is enough here: it loses nothing, costs ";
    assert!(tables.contains(sentence), "{tables}");
    assert!(picture.text().contains("Load on the target: SQS 3m,5"));
    let ordered = ["simulate", "--strategy", "ordered", "--groups", "2", "--compare-plain", "180s,5"];
    assert_eq!(run_redeliver(&ordered).status.code(), Some(2));
}

#[test]
fn a_flapping_target_goes_down_repeatedly_until_the_last_message() {
    let policy = ScratchFile::new("simulate-flap.json", FIXED_POLICY);
    let arguments = ["--messages", "600", "--flap", "20s,20s", "--over", "10m", "--format", "json"];
    let report = json_report(&run_simulate(&policy, &arguments));
    let flap = &report["scenario"]["flap"];
    assert_eq!((&flap["up_seconds"], &flap["down_seconds"]), (&20.into(), &20.into()));
    assert!(report["scenario"]["outage_seconds"].is_null());
    let measured = &report["policies"][0]["measured"];
    // About half of the messages arrive while the target is down. It is up 60 s later, when they are retried.
    assert_eq!((&measured["processed"], &measured["retries"]), (&600.into(), &309.into()));
    assert_eq!((&measured["calls"], &measured["wasted"]["while_down"]), (&909.into(), &309.into()));
    // The target is down in seconds 580 to 599; those messages are back from second 640 on.
    assert_eq!(measured["drain_seconds"], 59);
    let delays = serde_json::json!({"p50": 60.686, "p90": 62.372, "p99": 62.913, "max": 123.439});
    assert_eq!(measured["delay_seconds"], delays);
    assert!(measured["by_group"].is_null());
}

/// With manual sizing, a team would notice the overload only in its first long outage: messages return hours late.
#[test]
fn an_overloaded_function_is_reported_with_the_concurrency_it_needs() {
    let policy = ScratchFile::new("simulate-bottleneck.json", FIXED_POLICY);
    let picture = ScratchFile::new("simulate-bottleneck.svg", b"");
    let burst = ["--messages", "40000", "--over", "1s", "--outage", "30s", "--max-concurrency", "1000"];
    let plot = ["--plot", picture.name()];
    let run = |more: &[&str]| run_simulate(&policy, &[&burst, &plot[..], more].concat());
    let limited = run(&["--inner-concurrency", "2", "--format", "json"]);
    let report = json_report(&limited);
    assert_eq!(report["scenario"]["inner_concurrency"], 2);
    // All fail at the same time. Two invocations process 444 per second: the last message is re-sent after 90 s, and is
    // back 60 s later.
    let measured = &report["policies"][0]["measured"];
    let bottleneck = serde_json::json!({
        "function": "failed-message-processor",
        "wanted_per_second": 667,
        "possible_per_second": 444,
        "inner_concurrency_needed": 4,
        "backlog_max": 35_280,
        "drain_seconds_without": 53,
    });
    assert_eq!((&measured["bottleneck"], &measured["drain_seconds"]), (&bottleneck, &121.into()));
    let tables = |more: &[&str]| String::from_utf8(run(more).stdout).unwrap();
    let text = tables(&["--inner-concurrency", "2"]);
    let sentence = "
BOTTLENECK: the failed-message-processor: 667 messages per second needed, 444 possible with innerConcurrency 2.
Up to 35,280 messages wait for it; without the bottleneck, the time to drain is 53s.
Use innerConcurrency 4, or the strategy direct-resend.
";
    assert!(text.contains(sentence), "{text}");
    let drawn = |picture: &ScratchFile| picture.text().contains("Bottleneck, the failed-message-processor");
    assert!(drawn(&picture));
    let text = tables(&[]);
    assert!(!text.contains("BOTTLENECK") && !drawn(&picture), "20 s of work is a burst: {text}");
}

/// Two of five groups are down for the entire time, so all of their messages die.
#[test]
fn a_group_outage_affects_only_its_groups() {
    let policy = ScratchFile::new("simulate-groups.json", FIXED_POLICY);
    let picture = ScratchFile::new("simulate-groups.svg", b"");
    let groups = ["--messages", "600", "--groups", "5", "--groups-down", "2"];
    let outage = ["--outage", "20m", "--over", "10m", "--capacity", "9", "--plot", picture.name()];
    let measured = |more: &[&str]| {
        let report = json_report(&run_simulate(&policy, &[&groups, more, &["--format", "json"]].concat()));
        report["policies"][0]["measured"].clone()
    };
    let down = measured(&outage);
    assert_eq!((&down["processed"], &down["wasted"]["while_down"]), (&360.into(), &960.into()));
    assert_eq!(down["dead_lettered"]["RETRY_ATTEMPT_EXCEEDED"], 240);
    let at_once = serde_json::json!({"p50": 1.112, "p90": 1.391, "p99": 1.662, "max": 1.728});
    assert_eq!(down["delay_seconds"], at_once);
    assert_eq!(down["by_group"], serde_json::json!({"up": at_once, "down": null, "overtaken": 7}));
    // 240 messages, at 9 per second.
    assert!(picture.text().contains(">earliest possible end 20m 27s<"));
    let tables = String::from_utf8(run_simulate(&policy, &[&groups[..], &outage].concat()).stdout).unwrap();
    for words in [
        "; the target is down for the first 20m; this affects 2 of 5 groups; the target's capacity is 9 per second; at most 10 invocations at once.",
        "\n groups affected by a fault       –                –                –        –            240\n",
        "\n other groups                    1s               1s               2s       2s              0\n",
    ] {
        assert!(tables.contains(words), "{words} in {tables}");
    }
    let by_chance = measured(&["--failure-rate", "1"]);
    assert_eq!((&by_chance["processed"], &by_chance["wasted"]["by_chance"]), (&360.into(), &960.into()));
    let all =
        json_report(&run_simulate(&policy, &[&outage[..], &["--groups", "5", "--format", "json"]].concat()));
    assert_eq!(all["scenario"]["groups"], serde_json::json!({"count": 5, "down": 5}));
    assert!(all["policies"][0]["measured"]["delay_seconds"].is_null());
}

/// Returns the summary for a thousand messages in the first ten seconds of a ten-minute outage.
fn outage_summary(more: &[&str]) -> Value {
    let arguments = ["simulate", "--messages", "1000", "--over", "10s", "--format", "json"];
    json_report(&run_redeliver(&[&arguments, more].concat()))["policies"][0].clone()
}

#[test]
fn each_environment_makes_its_own_opening_calls_and_probes_in_an_outage() {
    for (environments, probes, wasted) in [(1, 29, 38), (3, 82, 109)] {
        let planned = outage_summary(&["--max-concurrency", &environments.to_string()]);
        let measured = &planned["measured"];
        let breaker = &measured["circuit_breaker"];
        assert_eq!(
            (&breaker["openings"], &breaker["environments"]),
            (&environments.into(), &environments.into())
        );
        assert_eq!((&breaker["held_messages"], &breaker["probes"]), (&1000.into(), &probes.into()));
        assert_eq!(measured["wasted"]["while_down"], wasted);
        // The calls that open the circuit spend no attempts, and neither do probes.
        assert_eq!((&measured["retries"], &measured["processed"]), (&0.into(), &1000.into()));
        // The same policy without the circuit breaker: 3 messages use up all six of their calls during the outage.
        let without = &planned["without_circuit_breaker"]["measured"];
        assert_eq!(without["dead_lettered"]["RETRY_ATTEMPT_EXCEEDED"], 3);
        assert_eq!((&without["calls"], &without["wasted"]["while_down"]), (&2915.into(), &1918.into()));
        assert_eq!(planned["survival"].as_array().unwrap().last().unwrap()["held"], 1.0);
        assert_eq!(planned["span"]["hold_seconds_max"], 86_400);
    }
}

/// Without a hold, most messages that arrive during a twelve-hour outage would become dead letters.
#[test]
fn an_outage_of_twelve_hours_kills_none_of_a_thousand_messages() {
    let slowly = ["simulate", "--messages", "1000", "--over", "12h", "--outage", "12h"];
    let arguments = [&slowly[..], &["--format", "json"]].concat();
    let planned = &json_report(&run_redeliver(&arguments))["policies"][0];
    let measured = &planned["measured"];
    assert_eq!((&measured["processed"], &measured["calls"]), (&1000.into(), &1642.into()));
    let without = &planned["without_circuit_breaker"]["measured"];
    assert_eq!(without["dead_lettered"]["RETRY_ATTEMPT_EXCEEDED"], 936);
}

/// Messages that always fail do not indicate an outage. If they were held for a day, they would become dead letters
/// only the next day.
#[test]
fn messages_that_always_fail_are_given_up_within_two_and_a_half_hours() {
    for (messages, held, seconds) in [("3", 0, 2282), ("20", 20, 7293)] {
        let poison = ["simulate", "--messages", messages, "--over", "10s", "--failure-rate", "1"];
        let arguments = [&poison[..], &["--status", "500", "--format", "json"]].concat();
        let measured = &json_report(&run_redeliver(&arguments))["policies"][0]["measured"];
        assert_eq!(measured["dead_lettered"]["RETRY_ATTEMPT_EXCEEDED"].to_string(), messages);
        assert_eq!(measured["circuit_breaker"]["held_messages"], held, "{messages}");
        assert_eq!(measured["drain_seconds"], seconds, "{messages}");
    }
}

#[test]
fn a_30_percent_failure_rate_does_not_open_the_circuit_breaker() {
    let planned = outage_summary(&["--failure-rate", "0.3", "--status", "500"]);
    let (measured, without) = (&planned["measured"], &planned["without_circuit_breaker"]["measured"]);
    assert_eq!(measured["circuit_breaker"]["openings"], 0);
    assert_eq!((&measured["calls"], &measured["processed"]), (&without["calls"], &without["processed"]));
}

/// Returns the rows of the circuit breaker's table, split into cells.
fn circuit_breaker_rows(tables: &str) -> Vec<Vec<&str>> {
    tables
        .lines()
        .skip_while(|line| !line.starts_with("Effect of the circuit breaker"))
        .take_while(|line| !line.is_empty())
        .skip(1)
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect()
}

#[test]
fn a_comparison_needs_circuit_breakers_in_both_policies() {
    let with = ScratchFile::new("simulate-with.json", b"{}");
    let without = ScratchFile::new("simulate-without.json", br#"{"circuit_breaker":false}"#);
    let arguments = ["--messages", "1000", "--over", "10s", "--compare", with.name()];
    let tables = String::from_utf8(run_simulate(&without, &arguments).stdout).unwrap();
    let (_, compared) = tables.split_once("Effect of the circuit breaker").unwrap();
    let (compared, _) = compared.split_once("A million such messages").unwrap();
    let calls = compared.lines().filter_map(|line| line.strip_prefix(" calls to the target"));
    let cells: Vec<Vec<_>> = calls
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).skip(1).collect())
        .collect();
    assert_eq!(cells, [["–", "2,915"], ["1,103", "2,915"]]);
    let [verdict, best, other] = [0, 5, 6].map(|line| tables.lines().nth(line).unwrap());
    let ends = |text: &str, end: &str| assert!(text.ends_with(end), "{end} in {tables}");
    ends(verdict, "simulate-with: it processes all 1,000 messages. A million such messages cost $4.65.");
    ends(best, "0  1,103             190         4m 42s                $4.65");
    ends(other, "3  2,915               8        14m 25s                $4.48");
}

#[test]
fn simulation_tables_and_picture_show_the_circuit_breaker_effect() {
    let policy = ScratchFile::new("simulate-breaker.json", b"{}");
    let picture = ScratchFile::new("simulate-breaker.svg", b"");
    let output = run_simulate(&policy, &["--messages", "1000", "--over", "10s", "--plot", picture.name()]);
    let tables = String::from_utf8(output.stdout).unwrap();
    for words in [
        "\n messages held  ",
        "\n longest hold  ",
        "Effect of the circuit breaker",
        " without it",
        "held: from the beginning of the outage, as almost all messages were. That spends no attempt.",
    ] {
        assert!(tables.contains(words), "{words} in {tables}");
    }
    // Without the circuit breaker, three messages are lost, and more calls are wasted.
    assert_eq!(
        circuit_breaker_rows(&tables),
        [
            vec!["with it", "without it"],
            vec!["dead-lettered", "0", "3"],
            vec!["calls to the target", "1,103", "2,915"],
            vec!["wasted", "103", "1,918"],
            vec!["busiest second after the return", "190", "8"],
            vec!["time to drain after the return", "4m 42s", "14m 25s"],
            vec!["a million such messages cost", "$4.65", "$4.48"],
        ]
    );
    for words in ["without circuit breaker", ">held<"] {
        assert!(picture.text().contains(words), "{words}");
    }
}

/// Four messages are too few to open the circuit, so the results match those without the circuit breaker.
#[test]
fn traffic_too_low_to_open_the_circuit_is_reported() {
    let policy = ScratchFile::new("simulate-small.json", b"{}");
    let picture = ScratchFile::new("simulate-small.svg", b"");
    let small = |messages: &str, more: &[&str]| {
        let arguments = [&["--messages", messages, "--over", "8h", "--plot", picture.name()], more].concat();
        String::from_utf8(run_simulate(&policy, &arguments).stdout).unwrap()
    };
    let held = small("4", &["--outage", "8h", "--status", "503"]);
    for words in [
        "\nheld: from the beginning of the outage, as almost all messages were. That spends no attempt.\ncalled: each time, as without a circuit breaker\n",
        "\nNo circuit opened.\n",
    ] {
        assert!(held.contains(words), "{words} in {held}");
    }
    let tables = small("4", &["--outage", "8h", "--status", "500"]);
    for words in [
        "\nheld: from the beginning of the outage. That spends no attempt. In this run 0 of 4 messages were held.\ncalled: each time, as without a circuit breaker\n",
        "\n messages held  ",
        "\nNo circuit opened.\n",
    ] {
        assert!(tables.contains(words), "{words} in {tables}");
    }
    assert!(picture.text().contains(">held: none was in this run<"));
    assert!(picture.text().contains("calls per second, the busiest of each 143 s"));
    // The target had no outage to recover from.
    let by_chance = small("100", &["--failure-rate", "0.1"]);
    assert_eq!(by_chance.matches(" time to drain after the last message ").count(), 2, "{by_chance}");
    assert!(!by_chance.contains("return"), "{by_chance}");
}

/// Each kind of death has a different remedy: more retries do not help a message that was held for too long.
#[test]
fn the_first_line_names_the_remedy_for_most_deaths() {
    for (policy, more, advice) in [
        (
            r#"{"circuit_breaker":{"hold_seconds_max":3600}}"#,
            &["--outage", "6h"][..],
            "This policy does not process 10 of 10 messages: raise hold_seconds_max.",
        ),
        (
            r#"{"circuit_breaker":false,"non_retryable":["HttpStatus.500"]}"#,
            &["--outage", "1h", "--status", "500"],
            "This policy does not process 10 of 10 messages: check its retryable and non_retryable lists.",
        ),
        (
            r#"{"circuit_breaker":false,"max_age_seconds":600}"#,
            &["--outage", "1h"],
            "This policy does not process 10 of 10 messages: raise max_age_seconds.",
        ),
        (
            r#"{"circuit_breaker":false,"max_attempts":1}"#,
            &["--outage", "1h"],
            "This policy does not process 10 of 10 messages: plan more or longer retries.",
        ),
    ] {
        let policy = ScratchFile::new("simulate-advice.json", policy.as_bytes());
        let arguments = [&["--messages", "10", "--over", "10s"][..], more].concat();
        let tables = String::from_utf8(run_simulate(&policy, &arguments).stdout).unwrap();
        assert!(tables.starts_with(advice), "{advice} in {tables}");
        // No message was processed, so nothing drained.
        let drains = tables.lines().filter(|line| line.starts_with(" time to drain "));
        assert!(drains.clone().count() > 0 && drains.clone().all(|line| line.ends_with('–')), "{tables}");
    }
}

#[test]
fn a_single_message_and_hanging_calls_are_worded_correctly() {
    let policy = ScratchFile::new("simulate-one.json", b"{}");
    let arguments = ["--messages", "1", "--outage", "6h", "--over", "1m", "--hang"];
    let tables = String::from_utf8(run_simulate(&policy, &arguments).stdout).unwrap();
    for words in [
        "This policy does not process 1 of 1 message: plan more or longer retries.",
        "\n1 message over 1m; the target is down for the first 6h; calls that fail hang for 30s; at most 10 invocations",
        " In this run 0 of 1 message was held.\n",
    ] {
        assert!(tables.contains(words), "{words} in {tables}");
    }
    let up = run_simulate(&policy, &["--messages", "1", "--failure-rate", "0"]);
    assert!(up.stdout.starts_with(b"This policy processes the one message. "));
}

/// If the line for a 30-day outage were drawn at the 24-hour mark, it would overstate the policy's chances.
#[test]
fn the_picture_marks_the_scenarios_outage_at_its_true_length() {
    let policy = ScratchFile::new("simulate-long.json", FIXED_POLICY);
    let picture = ScratchFile::new("simulate-long.svg", b"");
    let drawn = |outage: &str| {
        let arguments = ["--messages", "10", "--over", "1m", "--outage", outage, "--plot", picture.name()];
        run_simulate(&policy, &arguments);
        let text = picture.text();
        [">24 h<", ">7 d<", ">30 d<", ">the outage of the scenario<"].map(|words| text.contains(words))
    };
    assert_eq!(drawn("30d"), [true; 4]);
    assert_eq!(drawn("10m"), [true, false, false, true]);
    assert_eq!(drawn("10s"), [true, false, false, false], "the axis begins at a minute");
}

#[test]
fn calls_beyond_target_capacity_are_wasted_and_retried() {
    let policy = ScratchFile::new("simulate-capacity.json", FIXED_POLICY);
    let arguments =
        ["--messages", "60", "--outage", "1m", "--over", "1s", "--capacity", "10", "--format", "json"];
    let report = json_report(&run_simulate(&policy, &arguments));
    let measured = &report["policies"][0]["measured"];
    // The messages come back within two or three seconds, three times, and the target handles 10 per second.
    assert_eq!((&measured["processed"], &measured["retries"]), (&50.into(), &120.into()));
    assert_eq!(
        (&measured["wasted"]["while_down"], &measured["wasted"]["over_capacity"]),
        (&60.into(), &70.into())
    );
    assert_eq!(measured["after_return"]["peak_per_second"], 50);
}

#[test]
fn a_batch_lasts_as_long_as_its_slowest_call() {
    let policy = ScratchFile::new("simulate-limit.json", FIXED_POLICY);
    let arguments = [
        "--messages",
        "1000",
        "--failure-rate",
        "0",
        "--over",
        "1s",
        "--max-concurrency",
        "2",
        "--format",
        "json",
    ];
    let report = json_report(&run_simulate(&policy, &arguments));
    let measured = &report["policies"][0]["measured"];
    // 50 batches of ten: with calls of 0.3 s on average, the slowest of ten takes 0.6 s.
    assert_eq!((&measured["processed"], &measured["drain_seconds"]), (&1000.into(), &31.into()));
    assert_eq!(measured["after_return"]["peak_per_second"], 50);
}

#[test]
fn the_same_seed_gives_the_same_report_and_picture() {
    let policy = ScratchFile::new("simulate-seed.json", b"{}");
    let picture = ScratchFile::new("simulate-seed.svg", b"");
    let run = |seed: &str| {
        let arguments = ["--messages", "2000", "--capacity", "5", "--seed", seed, "--plot", picture.name()];
        let output = run_simulate(&policy, &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr_text(&output));
        (output.stdout, picture.text())
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn two_policies_are_compared_in_the_tables_and_on_the_page() {
    let one = ScratchFile::new("simulate-one.json", FIXED_POLICY);
    let other = ScratchFile::new("simulate-<other>.json", b"{}");
    let page = ScratchFile::new("simulate-both.html", b"");
    let output = run_simulate(&one, &["--messages", "500", "--compare", other.name(), "--plot", page.name()]);
    let tables = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{tables}");
    for words in [
        "  2m       2m      2m\n",
        "  0s      15m     30m\n",
        "simulate-one",
        "simulate-<other>",
        "total",
        "500 messages over 10m",
    ] {
        assert!(tables.contains(words), "{words} in {tables}");
    }
    assert!(!tables.contains('\u{1b}'), "no colors in a pipe");
    let page = page.text();
    assert_eq!(page.matches("<svg").count(), 4, "load of each, attempts, chance");
    for words in [
        "Load on the target: ",
        "simulate-&lt;other&gt;",
        "When the attempts",
        "survives an outage",
        "calls and held messages per second",
    ] {
        assert!(page.contains(words), "{words}");
    }
    for absent in ["<script", "<link", "<img", "src=", "https:", "url(", "<other>"] {
        assert!(!page.contains(absent), "{absent}");
    }
}

#[test]
fn custom_prices_replace_individual_defaults() {
    let policy = ScratchFile::new("simulate-prices.json", FIXED_POLICY);
    let dollars = |more: &[&str]| {
        let report =
            json_report(&run_simulate(&policy, &[&["--messages", "100", "--format", "json"], more].concat()));
        report["policies"][0]["per_million"].clone()
    };
    let list = dollars(&[]);
    let prices = ScratchFile::new("prices.json", br#"{"sqs_million_requests":0.80}"#);
    let own = dollars(&["--prices", prices.name()]);
    assert_eq!(list["sqs_requests"], own["sqs_requests"]);
    let [list_sqs, own_sqs] = [&list, &own].map(|one| one["dollars"]["sqs_requests"].as_f64().unwrap());
    assert!((own_sqs - 2.0 * list_sqs).abs() < 1e-9, "{list} {own}");
    assert_eq!(list["dollars"]["logs"], own["dollars"]["logs"]);
}

#[test]
fn groups_on_a_standard_queue_incur_the_fair_queue_surcharge() {
    let policy = ScratchFile::new("simulate-fair.json", FIXED_POLICY);
    let request_price = |groups: &[&str]| {
        let report = json_report(&run_simulate(
            &policy,
            &[&["--messages", "100", "--format", "json"], groups].concat(),
        ));
        let million = &report["policies"][0]["per_million"];
        let requests = million["sqs_requests"].as_f64().unwrap() / 1e6;
        million["dollars"]["sqs_requests"].as_f64().unwrap() / requests
    };
    let [without, with] = [request_price(&[]), request_price(&["--groups", "10"])];
    assert!((without - 0.4).abs() < 1e-9 && (with - 0.5).abs() < 1e-9, "{without} {with}");
}

#[test]
fn invalid_simulation_arguments_are_reported() {
    let policy = ScratchFile::new("simulate-good.json", FIXED_POLICY);
    let wrong = ScratchFile::new("simulate-wrong.json", br#"{"max_attempts":-1}"#);
    let prices = ScratchFile::new("prices-wrong.json", br#"{"sqs":1}"#);
    assert!(failure_message(&wrong, &[]).contains("/max_attempts is less than the minimum of 0"));
    assert!(failure_message(&policy, &["--compare", "absent.json"]).contains("absent.json: cannot be read"));
    assert!(
        usage_error_message(&policy, &["--plot", "out.png"])
            .contains("out.png: a picture's name must end in .svg or .html")
    );
    assert!(
        failure_message(&policy, &["--plot", "/absent/out.svg", "--messages", "1"])
            .contains("its directory does not exist; create it first")
    );
    assert!(
        failure_message(&policy, &["--prices", prices.name()])
            .contains("/sqs is not a price; the prices are alarm_month, dashboard_month, ")
    );
    assert!(
        usage_error_message(&policy, &["--outage", "5m", "--failure-rate", "0.5"])
            .contains("cannot be used with")
    );
    assert!(usage_error_message(&policy, &["--hang", "--status", "500"]).contains("cannot be used with"));
    assert!(usage_error_message(&policy, &["--outage", "5"]).contains("such as 90s, 10m"));
    for option in ["--outage", "--over", "--retention", "--batching-window", "--flap"] {
        let named = format!("invalid value '-5m' for '{option} <");
        assert!(usage_error_message(&policy, &[option, "-5m"]).contains(&named), "{option}");
    }
    let permanent = usage_error_message(&policy, &["--status", "422"]);
    assert!(permanent.contains("gives up such messages immediately (NON_RETRYABLE_ERROR)"), "{permanent}");
    assert!(
        failure_message(&policy, &["--compare", "-"]).contains("only messages are read from standard input")
    );
    assert!(
        usage_error_message(&policy, &["--messages", "0"])
            .contains("a whole number from 1 to 1000000, without commas")
    );
    assert!(usage_error_message(&policy, &["--flap", "20s"]).contains("two spans with a comma between them"));
    assert!(usage_error_message(&policy, &["--flap", "0s,20s"]).contains("whole seconds from 1s to 30d"));
    assert!(
        usage_error_message(&policy, &["--flap", "20s,20s", "--outage", "5m"])
            .contains("cannot be used with")
    );
    assert!(usage_error_message(&policy, &["--groups-down", "2"]).contains("--groups <N>"));
    let ordered = |more: &[&str]| usage_error_message(&policy, &[&["--strategy", "ordered"], more].concat());
    assert!(ordered(&[]).contains("--strategy ordered: give --groups N, the number of message groups"));
    assert!(
        ordered(&["--groups", "2", "--batching-window", "1s"])
            .contains("--batching-window: leave it out with")
    );
    assert!(ordered(&["--batch-size", "11"]).contains("a whole number from 1 to 10"));
    let more = usage_error_message(&policy, &["--groups", "2", "--groups-down", "3"]);
    assert!(more.contains("--groups-down 3: there are only 2 groups"), "{more}");
    let many = [["--compare", policy.name()]; 6].concat();
    assert!(usage_error_message(&policy, &many).contains("at most 5 policies besides the first"));
}

/// Without these figures, only the first real outage would show whose messages are late and what ordering costs.
#[test]
fn the_figures_for_a_failing_ordered_group_match_the_page() {
    let page = std::fs::read_to_string(workspace_root().join("docs/strategies/ordered.md")).unwrap();
    let picture = ScratchFile::new("plan-of-ordered.svg", b"");
    let scenario = ["--groups", "10", "--groups-down", "1", "--outage", "1h", "--messages", "7200"];
    let simulated = |strategy: &str, more: &[&str]| {
        let arguments = ["simulate", "--strategy", strategy];
        let output = run_redeliver(&[&arguments, &scenario[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr_text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let ordered = simulated("ordered", &["--plot", picture.name()]);
    let shown = std::fs::read_to_string(workspace_root().join("docs/plans/ordered.svg")).unwrap();
    assert!(picture.text() == shown, "docs/plans/ordered.svg differs");
    let resent = simulated("delayed-resend", &[]);
    let cell = |tables: &str, row: &str, column: usize| {
        let cells = tables.lines().find_map(|line| line.strip_prefix(&format!(" {row}  "))).unwrap();
        cells.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).nth(column).unwrap().to_owned()
    };
    assert!(
        ordered
            .contains("; at most 10 invocations at once; at most 1 message per batch; strategy ordered.\n")
    );
    let retention = [&ordered, &resent].map(|tables| cell(tables, "retention of the source queue", 0));
    assert_eq!(retention, ["14d", "7d"]);
    for (name, row, column) in [
        ("the failing group: median", "groups affected by a fault", 0),
        ("… 90th percentile", "groups affected by a fault", 1),
        ("… longest", "groups affected by a fault", 3),
        ("the nine others: longest", "other groups", 3),
        ("overtaken by later messages of their group", "overtaken by later messages of their group", 0),
        ("a million such messages: SQS requests", "SQS requests", 0),
        ("… SQS", "SQS", 0),
        ("… Lambda", "Lambda", 0),
        ("… logs", "CloudWatch Logs", 0),
        ("… total", "total", 0),
    ] {
        let [ordered, resent] = [&ordered, &resent].map(|tables| cell(tables, row, column));
        let shown = format!("\n| {name} | {ordered} | {resent} |\n");
        assert!(page.contains(&shown), "docs/strategies/ordered.md does not show:{shown}");
    }
}

/// `redeliver simulate` with these arguments regenerates the pictures.
#[test]
fn starter_policies_are_valid_and_match_their_page() {
    for name in ["policy", "policies/webhook", "policies/payment", "policies/batch"] {
        let policy = format!("examples/{name}.json");
        assert_eq!(run_redeliver(&["check", "--policy", &policy]).status.code(), Some(0), "{policy}");
        let stem = name.rsplit('/').next().unwrap();
        let picture = ScratchFile::new(&format!("plan-of-{stem}.svg"), b"");
        let plot = ["--outage", "10m", "--capacity", "50", "--plot", picture.name()];
        let output = run_redeliver(&[&["simulate", "--policy", &policy][..], &plot].concat());
        let shown = std::fs::read_to_string(workspace_root().join(format!("docs/plans/{stem}.svg"))).unwrap();
        assert!(picture.text() == shown, "docs/plans/{stem}.svg differs");
        if name == "policy" {
            let tables = String::from_utf8(output.stdout).unwrap();
            let page = std::fs::read_to_string(workspace_root().join("docs/plan.md")).unwrap();
            assert!(page.contains(&tables), "docs/plan.md does not show:\n{tables}");
        }
    }
}
