//! The table.

use crate::subject::Costs;

/// Prints what each costs, and the ratios to the floor, which comes first, and of Python, which comes last.
pub(crate) fn print(costs: &[Costs]) {
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
            mebibytes(costs),
            costs.requests_per_message,
            plain,
            compressed
        );
    }
    let [floor, ours @ .., python] = costs else { return };
    println!("\ntimes the floor's{:>33}{:>12}{:>13}{:>9}", "start", "CPU", "wall", "peak");
    for costs in ours {
        let [start, cpu, wall, peak] = ratios(costs, floor);
        println!("{:<40}{start:>10.2}{cpu:>12.2}{wall:>13.2}{peak:>9.2}", costs.name);
    }
    println!("\nPython's is so many times{:>25}{:>12}{:>13}{:>9}", "start", "CPU", "wall", "peak");
    for costs in ours {
        let [start, cpu, wall, peak] = ratios(python, costs);
        println!("{:<40}{start:>10.1}{cpu:>12.1}{wall:>13.1}{peak:>9.1}", costs.name);
    }
}

fn ratios(a: &Costs, b: &Costs) -> [f64; 4] {
    [a.start / b.start, a.cpu / b.cpu, a.wall / b.wall, mebibytes(a) / mebibytes(b)]
}

fn mebibytes(costs: &Costs) -> f64 {
    costs.peak_memory_bytes as f64 / 1024.0 / 1024.0
}
