//! What the operating system says about processes and about this machine.

use std::fs;
use std::time::Duration;

use serde::Serialize;

/// Processor time of all threads that these processes have and had, and of the children that they have waited for (a Redis rewrites its
/// log in one).
pub(crate) fn processor_time(processes: &[u32]) -> Duration {
    let ticks: u64 = processes.iter().filter_map(|process| ticks_of(*process)).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn ticks_of(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks(&text)
}

/// After the name, which may hold anything, in parentheses: the state is field 3, the times are 14 to 17.
fn ticks(stat: &str) -> Option<u64> {
    let fields = stat.rsplit(')').next()?.split_whitespace().skip(14 - 3).take(4);
    Some(fields.filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// Processor time that anybody used since the machine was started, this one's host included.
pub(crate) fn everyones_time() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = busy_ticks(text.lines().next().unwrap_or_default());
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// `cpu user nice system idle iowait irq softirq steal …`: all of these but those in which nothing was done.
fn busy_ticks(line: &str) -> u64 {
    let fields = line.split_whitespace().skip(1).take(8).enumerate();
    fields.filter(|(place, _)| !matches!(place, 3 | 4)).filter_map(|(_, field)| field.parse::<u64>().ok()).sum()
}

/// How many processors there are for us.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Bytes in memory.
pub(crate) fn resident(processes: &[u32]) -> u64 {
    let pages = |process: &u32| {
        let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    processes.iter().filter_map(pages).sum::<u64>() * rustix::param::page_size() as u64
}

/// It runs, and is not merely waited for.
pub(crate) fn is_alive(process: u32) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    let state = text.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    let threads = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    // While threads of it still end they hold its ports.
    !matches!(state, Some("Z" | "X")) || threads > 1
}

/// As many open files as this process may have at most, and its children with it. How many that is.
pub fn raise_file_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _as_it_was = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// On what it was measured: figures of two machines say nothing about each other.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub date: String,
    pub cores: usize,
    pub processor: String,
    pub memory_mib: u64,
    pub kernel: String,
    /// What each side says of itself.
    pub versions: Vec<(String, String)>,
}

impl Machine {
    pub fn here(versions: Vec<(String, String)>) -> Self {
        let line_of = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
            line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let kib =
            line_of("/proc/meminfo", "MemTotal").split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self {
            date: date(now.as_secs()),
            cores: cores(),
            processor: line_of("/proc/cpuinfo", "model name"),
            memory_mib: kib.unwrap_or(0) / 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            versions,
        }
    }

    pub fn line(&self) -> String {
        let versions: Vec<String> = self.versions.iter().map(|(who, version)| format!("{who} {version}")).collect();
        let Self { date, cores, processor, memory_mib, kernel, .. } = self;
        format!("{date}; {cores} cores ({processor}), {memory_mib} MiB, Linux {kernel}; {}", versions.join(", "))
    }
}

/// A day of our calendar, from seconds since 1970.
fn date(seconds: u64) -> String {
    // Years that begin in March have their leap day at the end; 400 of them are 146,097 days.
    let days = seconds / 86400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_767_225_599), "2025-12-31");
        assert_eq!(date(1_767_225_600), "2026-01-01");
    }

    #[test]
    fn times_after_a_name_with_anything_in_it() {
        let stat = "12 (a) b (c)) S 1 12 12 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 4 0 777 0 0";
        assert_eq!(ticks(stat), Some(127));
    }

    #[test]
    fn what_is_idle_is_nobodys() {
        assert_eq!(busy_ticks("cpu  100 20 3 4000 500 6 7 8 0 0"), 144);
    }

    #[test]
    fn this_process_runs_and_is_somewhere_in_memory() {
        let me = std::process::id();
        assert!(is_alive(me) && resident(&[me]) > 100_000);
    }
}
