//! What a server took: processor time and memory, from `/proc`.

use std::time::Duration;

use anyhow::{Context, Result};

/// Ticks of `/proc/<pid>/stat` in a second; the same on every Linux that we know.
const TICKS: u64 = 100;

/// User and system time of these processes together.
pub(crate) fn time(pids: &[u32]) -> Result<Duration> {
    let mut ticks = 0;
    for pid in pids {
        let path = format!("/proc/{pid}/stat");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        // The name may hold anything, and ends with the last parenthesis.
        let fields: Vec<&str> = text
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        for index in [11, 12] {
            let field = fields.get(index).context("a short line in /proc")?;
            ticks += field.parse::<u64>().context("a number in /proc")?;
        }
    }
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

/// Resident memory of these processes together, in bytes.
pub(crate) fn memory(pids: &[u32]) -> Result<u64> {
    let mut bytes = 0;
    for pid in pids {
        let path = format!("/proc/{pid}/status");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = text
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .context("no VmRSS")?;
        let kilobytes = line
            .split_whitespace()
            .nth(1)
            .context("a short line in /proc")?;
        bytes += kilobytes.parse::<u64>().context("a number in /proc")? * 1024;
    }
    Ok(bytes)
}
