//! CPU time and memory of processes, as the kernel reports them under /proc.

use crate::error::{Error, Result, While};
use rustix::process::Pid;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// CPU time of processes so far, counted in two ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Sum of the scheduler's counts over living threads. Exact to the last context switch, but without threads that
    /// have ended.
    pub scheduled: Duration,
    /// User plus system time including ended threads, rounded to clock ticks (usually 10 ms).
    pub ticked: Duration,
}

impl Cpu {
    /// Reads the CPU time of these processes, over all threads.
    ///
    /// # Errors
    /// If any has ended.
    pub fn of(pids: &[u32]) -> Result<Cpu> {
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let mut sum = Cpu::default();
        for &pid in pids {
            let ticks = parse_stat(&read(pid, "stat")?).ok_or_else(|| unreadable(pid, "stat"))?.ticks;
            sum.ticked += Duration::from_nanos(ticks * tick_ns);
            for thread in tasks(pid)? {
                // The thread may have ended after the listing.
                let Ok(text) = fs::read_to_string(thread.join("schedstat")) else { continue };
                sum.scheduled += parse_schedstat(&text).ok_or_else(|| unreadable(pid, "schedstat"))?;
            }
        }
        Ok(sum)
    }

    /// CPU time used since `earlier`: the scheduler's count if ticks agree with it, ticks otherwise (a thread ended,
    /// or the kernel keeps no such count). Agreement is within 5 % or 4 ticks, since each of the two readings of
    /// user and of system time is rounded down to a tick.
    pub fn since(&self, earlier: &Cpu) -> Used {
        let scheduled = self.scheduled.saturating_sub(earlier.scheduled);
        let ticked = self.ticked.saturating_sub(earlier.ticked);
        let agree = scheduled.abs_diff(ticked) <= Duration::from_millis(40).max(ticked / 20);
        if agree { Used { time: scheduled, exact: true } } else { Used { time: ticked, exact: false } }
    }
}

/// CPU time of ended children of this process, rounded to clock ticks.
///
/// # Errors
/// If it cannot be read.
pub fn ended_children() -> Result<Duration> {
    let this = std::process::id();
    let stat = parse_stat(&read(this, "stat")?).ok_or_else(|| unreadable(this, "stat"))?;
    Ok(Duration::from_nanos(stat.ended_ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))))
}

/// CPU time of all processes of the machine so far, with those that have ended and were waited for, rounded to clock
/// ticks for each.
pub fn all_processes() -> Duration {
    let Ok(all) = fs::read_dir("/proc") else { return Duration::ZERO };
    let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A process that ends leaves its time to its parent.
    let ticks: u64 =
        pids.filter_map(|pid| parse_stat(&read(pid, "stat").ok()?)).map(|stat| stat.ticks + stat.ended_ticks).sum();
    Duration::from_nanos(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)))
}

/// CPU time so far of each thread of a process whose name has this prefix: the scheduler's count, exact to the last
/// context switch.
///
/// # Errors
/// If the process has ended.
pub fn threads(pid: u32, prefix: &str) -> Result<Vec<Duration>> {
    let mut threads = Vec::new();
    for thread in tasks(pid)? {
        let read = |file| fs::read_to_string(thread.join(file));
        let (Ok(name), Ok(text)) = (read("comm"), read("schedstat")) else { continue };
        if name.starts_with(prefix) {
            threads.push(parse_schedstat(&text).ok_or_else(|| unreadable(pid, "schedstat"))?);
        }
    }
    Ok(threads)
}

/// Thread ids of a process.
///
/// # Errors
/// If the process has ended.
pub fn thread_ids(pid: u32) -> Result<Vec<Pid>> {
    let number = |thread: PathBuf| Pid::from_raw(thread.file_name()?.to_str()?.parse().ok()?);
    Ok(tasks(pid)?.filter_map(number).collect())
}

/// Folders of a process's threads under `/proc`.
fn tasks(pid: u32) -> Result<impl Iterator<Item = PathBuf>> {
    let folder = format!("/proc/{pid}/task");
    let threads = fs::read_dir(&folder).or_say(|| format!("cannot list {folder}"))?;
    Ok(threads.flatten().map(|thread| thread.path()))
}

/// CPU time between two points in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    pub time: Duration,
    /// True if it is the scheduler's count; otherwise it is rounded to ticks.
    pub exact: bool,
}

/// Resident memory of a process, in bytes.
///
/// # Errors
/// If it has ended.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    parse_resident(&read(pid, "status")?).ok_or_else(|| unreadable(pid, "status"))
}

/// Process ids of the living children of `parent`.
pub fn children_of(parent: u32) -> Vec<u32> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child =
        |pid: &u32| read(*pid, "stat").ok().and_then(|text| parse_stat(&text)).is_some_and(|s| s.parent == parent);
    pids.filter(is_child).collect()
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).or_say(|| format!("cannot read {path}"))
}

fn unreadable(pid: u32, file: &str) -> Error {
    Error::Wrong(format!("/proc/{pid}/{file} is not as proc(5) describes it"))
}

struct Stat {
    parent: u32,
    ticks: u64,
    ended_ticks: u64,
}

/// proc(5): `pid (name) state ppid ...`, utime and stime being fields 14 and 15, the times of ended children 16 and 17.
/// The name may contain spaces and brackets, so fields are counted from the last bracket.
fn parse_stat(text: &str) -> Option<Stat> {
    let after_name: Vec<&str> = text[text.rfind(')')? + 1..].split_ascii_whitespace().collect();
    let field = |number: usize| after_name.get(number - 3).copied();
    let sum = |first: usize| Some(field(first)?.parse::<u64>().ok()? + field(first + 1)?.parse::<u64>().ok()?);
    Some(Stat { parent: field(4)?.parse().ok()?, ticks: sum(14)?, ended_ticks: sum(16)? })
}

/// Kernel Documentation/scheduler/sched-stats: time on the CPU in ns, time waiting, slices.
fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn parse_resident(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_a_name_with_spaces_and_brackets() {
        let text = "71 (odd) name) S 42 71 71 0 -1 4194560 100 0 0 0 250 50 7 3 20 0 1 0 100 1000 10";
        let stat = parse_stat(text).expect("it has every field");
        assert_eq!((stat.parent, stat.ticks, stat.ended_ticks), (42, 300, 10));
    }

    #[test]
    fn a_cut_stat_is_refused() {
        assert!(parse_stat("71 (name) S 42").is_none());
        assert!(parse_stat("").is_none());
    }

    #[test]
    fn schedstat_begins_with_nanoseconds_on_the_cpu() {
        assert_eq!(parse_schedstat("1500000 7 3\n"), Some(Duration::from_micros(1500)));
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn resident_memory_is_told_in_kib() {
        assert_eq!(parse_resident("VmHWM:\t 9 kB\nVmRSS:\t    2048 kB\n"), Some(2 * 1024 * 1024));
        assert_eq!(parse_resident("Name:\tx\n"), None);
    }

    #[test]
    fn the_scheduler_is_believed_unless_ticks_disagree() {
        let ms = Duration::from_millis;
        let start = Cpu { scheduled: ms(100), ticked: ms(100) };
        let near = Cpu { scheduled: ms(1103), ticked: ms(1100) };
        assert_eq!(near.since(&start), Used { time: ms(1003), exact: true });
        let lost_a_thread = Cpu { scheduled: ms(600), ticked: ms(1100) };
        assert_eq!(lost_a_thread.since(&start), Used { time: ms(1000), exact: false });
    }

    #[test]
    fn this_process_has_used_some_memory_and_has_a_parent() {
        assert!(resident_bytes(std::process::id()).expect("it lives") > 100 * 1024);
        assert!(Cpu::of(&[std::process::id()]).is_ok());
    }
}
