//! What the system says of this process and of the others. Zero where it does not say.

/// Peak resident memory of this process in MiB (Linux).
pub(crate) fn peak_rss_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// CPU seconds spent so far by other processes (Linux).
pub(crate) fn others_cpu_seconds() -> f64 {
    // Linux counts in hundredths of a second wherever user space can see it.
    const TICKS: f64 = 100.0;
    let all = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let own = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> =
        all.lines().next().unwrap_or_default().split_whitespace().skip(1).filter_map(|v| v.parse().ok()).collect();
    // user, nice, system, irq, softirq
    let busy: f64 = [0, 1, 2, 5, 6].iter().filter_map(|&i| fields.get(i)).sum();
    // The name in parentheses may hold spaces; utime and stime are the 12th and 13th fields behind it.
    let behind = own.rsplit(')').next().unwrap_or_default();
    let own: f64 = behind.split_whitespace().skip(11).take(2).filter_map(|v| v.parse::<f64>().ok()).sum();
    (busy - own) / TICKS
}
