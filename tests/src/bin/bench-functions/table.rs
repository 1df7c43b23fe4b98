//! The tables.

use redeliver_tests::full_batch::RECORDS;

use crate::subject::Costs;

/// Prints the costs of all programs, our costs as multiples of the floor's (the first), and Python's (the last) as
/// multiples of ours.
pub(crate) fn print_table(costs: &[Costs]) {
    println!(
        "{:<40}{:>10}{:>12}{:>13}{:>9}{:>12}{:>8}{:>9}",
        "", "start, ms", "CPU, ms", "wall, ms", "peak,", "requests", "MB", "MB"
    );
    println!(
        "{:<40}{:>10}{:>12}{:>13}{:>9}{:>12}{:>8}{:>9}",
        "", "", "per batch", "per batch", "MiB", "per message", "", "gzipped"
    );
    for costs in costs {
        let megabytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1e6);
        let (plain, compressed) = costs
            .bytes
            .map_or_else(Default::default, |(plain, compressed)| (megabytes(plain), megabytes(compressed)));
        println!(
            "{:<40}{:>10.2}{:>12.3}{:>13.3}{:>9.1}{:>12.2}{:>8}{:>9}",
            costs.name,
            costs.start,
            costs.cpu,
            costs.wall,
            peak_memory_mib(costs),
            costs.requests_per_message,
            plain,
            compressed
        );
    }
    let [floor, ours @ .., python] = costs else { return };
    println!("\nas a multiple of the floor{:>24}{:>12}{:>13}{:>9}", "start", "CPU", "wall", "peak");
    for costs in ours {
        let [start, cpu, wall, peak] = cost_ratios(costs, floor);
        println!("{:<40}{start:>10.2}{cpu:>12.2}{wall:>13.2}{peak:>9.2}", costs.name);
    }
    println!("\nPython as a multiple of{:>27}{:>12}{:>13}{:>9}", "start", "CPU", "wall", "peak");
    for costs in ours {
        let [start, cpu, wall, peak] = cost_ratios(python, costs);
        println!("{:<40}{start:>10.1}{cpu:>12.1}{wall:>13.1}{peak:>9.1}", costs.name);
    }
}

/// Prints the overhead of the layer in each language (the first handler runs without it), and the price of a million
/// messages whose calls wait.
pub(crate) fn print_own_functions(languages: &[Vec<Costs>], waiting: &[Costs]) {
    println!("\n{:<40}{:>10}{:>12}{:>13}{:>9}", "", "start, ms", "CPU, ms", "wall, ms", "peak,");
    println!("{:<40}{:>10}{:>12}{:>13}{:>9}", "", "", "per message", "per message", "MiB");
    let messages = f64::from(RECORDS);
    let row = |name: &str, start, cpu, wall, peak| {
        println!("{name:<40}{start:>10.1}{cpu:>12.3}{wall:>13.3}{peak:>9.1}");
    };
    for costs in languages.iter().flatten() {
        row(costs.name, costs.start, costs.cpu / messages, costs.wall / messages, peak_memory_mib(costs));
    }
    let pairs = languages
        .iter()
        .filter_map(|own| own.split_first())
        .flat_map(|(without, layered)| layered.iter().map(move |costs| (without, costs)));
    for (without, costs) in pairs {
        let (cpu, wall) = (costs.cpu - without.cpu, costs.wall - without.wall);
        // The peak memory is that of the layer's own process.
        row(
            "  added by the layer",
            costs.start - without.start,
            cpu / messages,
            wall / messages,
            peak_memory_mib(costs),
        );
    }
    println!("\n{:<40}{:>13}{:>22}", "a call that waits 0.3 s", "ms per batch", "dollars per million");
    for costs in waiting {
        println!("{:<40}{:>13.0}{:>22.2}", costs.name, costs.wall, dollars_per_million(costs.wall / 1000.0));
    }
}

/// Returns the price of a million messages: invocations with ten messages each in a 256 MB function on x86-64, in
/// us-east-1 ("AWS Lambda Pricing").
fn dollars_per_million(batch_seconds: f64) -> f64 {
    const GIGABYTE_SECOND: f64 = 0.000_016_666_7;
    const REQUEST: f64 = 0.000_000_2;
    1e6 / f64::from(RECORDS) * (batch_seconds * 0.25 * GIGABYTE_SECOND + REQUEST)
}

fn cost_ratios(a: &Costs, b: &Costs) -> [f64; 4] {
    [a.start / b.start, a.cpu / b.cpu, a.wall / b.wall, peak_memory_mib(a) / peak_memory_mib(b)]
}

fn peak_memory_mib(costs: &Costs) -> f64 {
    costs.peak_memory_bytes as f64 / 1024.0 / 1024.0
}
