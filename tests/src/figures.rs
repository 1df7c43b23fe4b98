//! Benchmark figures: medians, and a process's CPU time and memory.

use std::time::Duration;

/// Returns the median of these figures. For an even number of figures, this is the upper of the two middle ones.
///
/// # Panics
/// If there are no figures.
#[must_use]
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Returns the CPU time of a process, user and system, from the contents of `/proc/PID/stat` ("proc_pid_stat(5)").
#[must_use]
pub fn cpu_time(stat: &str) -> Option<Duration> {
    /// `sysconf(_SC_CLK_TCK)`, which is 100 on every Linux on which these programs run.
    const TICKS_PER_SECOND: u64 = 100;
    // The second field is the program's name in parentheses, which can contain any character.
    let (_, members) = stat.rsplit_once(')')?;
    let mut members = members.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = members.next()?.ok()? + members.next()?.ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Returns the peak memory of a process in bytes, from the contents of `/proc/PID/status` ("proc_pid_status(5)").
#[must_use]
pub fn peak_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_figure() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]).to_bits(), 3.0_f64.to_bits());
    }

    #[test]
    fn the_cpu_time_is_read_after_the_process_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 900 0 0 0 123 77 0 0 20 0 1 0 5 1000 200";
        assert_eq!(cpu_time(stat), Some(Duration::from_millis(2000)));
        assert_eq!(cpu_time("42 (a) S 1"), None);
    }

    #[test]
    fn the_peak_memory_is_converted_from_kibibytes() {
        let status = "Name:\tbootstrap\nVmPeak:\t  200000 kB\nVmHWM:\t   12345 kB\nVmRSS:\t   12000 kB\n";
        assert_eq!(peak_memory(status), Some(12345 * 1024));
        assert_eq!(peak_memory("Name:\tzombie\n"), None);
    }
}
