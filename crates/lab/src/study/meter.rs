//! CPU time of groups of processes, and of the whole machine, to show how much other programs used.

use crate::error::{Error, Result, While};
use crate::procfs::Cpu;
use serde_json::{Value, json};
use std::time::Duration;

/// Running measurement of groups of processes.
pub struct Meter {
    groups: Vec<(&'static str, Vec<u32>, Cpu)>,
    machine: Duration,
}

/// CPU time used between two points in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Used {
    /// CPU time by group, in the order given.
    pub groups: Vec<(&'static str, Duration)>,
    /// CPU time of the whole machine, including the kernel's own work.
    pub machine: Duration,
}

impl Meter {
    /// Starts measuring. Each group is a name and its processes, which must live until the end.
    ///
    /// # Errors
    /// A process has ended.
    pub fn start(groups: Vec<(&'static str, Vec<u32>)>) -> Result<Meter> {
        let group = |(name, pids): (&'static str, Vec<u32>)| Cpu::of(&pids).map(|cpu| (name, pids, cpu));
        let groups = groups.into_iter().map(group).collect::<Result<_>>()?;
        Ok(Meter { groups, machine: machine()? })
    }

    /// CPU time used since the start.
    ///
    /// # Errors
    /// A process has ended.
    pub fn used(&self) -> Result<Used> {
        let group = |(name, pids, begin): &(&'static str, Vec<u32>, Cpu)| {
            Cpu::of(pids).map(|cpu| (*name, cpu.since(begin).time))
        };
        let groups = self.groups.iter().map(group).collect::<Result<_>>()?;
        Ok(Used { groups, machine: machine()?.saturating_sub(self.machine) })
    }
}

impl Used {
    /// CPU time of a group; zero if there is no such group.
    pub fn of(&self, name: &str) -> Duration {
        self.groups.iter().find(|(group, _)| *group == name).map_or(Duration::ZERO, |(_, used)| *used)
    }

    /// Fraction of the machine's CPU time that the groups account for.
    pub fn accounted(&self) -> f64 {
        let sum: Duration = self.groups.iter().map(|(_, used)| *used).sum();
        if self.machine.is_zero() { 1.0 } else { sum.as_secs_f64() / self.machine.as_secs_f64() }
    }

    /// CPU seconds as JSON.
    pub fn json(&self) -> Value {
        let groups: serde_json::Map<String, Value> =
            self.groups.iter().map(|(name, used)| ((*name).to_owned(), json!(used.as_secs_f64()))).collect();
        json!({ "groups": groups, "machine": self.machine.as_secs_f64(), "accounted": self.accounted() })
    }
}

/// CPU time of all processors since boot, without idle time.
fn machine() -> Result<Duration> {
    busy().map(|busy| busy.all)
}

/// CPU time of all processors since boot, by `/proc/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Time of all states but idle and waiting for disks.
    pub all: Duration,
    /// Part of it that the kernel spent in soft interrupts, whatever process was running.
    pub softirq: Duration,
}

/// Reads the CPU time of all processors since boot.
///
/// # Errors
/// The system has no such file.
pub fn busy() -> Result<Busy> {
    let text = std::fs::read_to_string("/proc/stat").or_say(|| "cannot read /proc/stat".into())?;
    let ticks = parse(&text).ok_or_else(|| Error::Wrong("/proc/stat is not as proc(5) describes it".into()))?;
    let time = |ticks| Duration::from_nanos(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)));
    Ok(Busy { all: time(ticks.0), softirq: time(ticks.1) })
}

/// proc(5): `cpu user nice system idle iowait irq softirq ...`. Returns the busy ticks, without idle and iowait, and
/// the ticks of soft interrupts.
fn parse(text: &str) -> Option<(u64, u64)> {
    let fields: Vec<u64> =
        text.lines().next()?.split_ascii_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let all = fields.get(..3)?.iter().sum::<u64>() + fields.get(5..7)?.iter().sum::<u64>();
    Some((all, *fields.get(6)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_used() {
        assert_eq!(parse("cpu  10 1 5 1000 50 2 3 7 0 0\ncpu0 1 1 1"), Some((21, 3)));
        assert_eq!(parse("cpu 1 2"), None);
    }

    #[test]
    fn what_this_process_uses_is_part_of_the_machine() {
        let meter = Meter::start(vec![("this", vec![std::process::id()])]).expect("it lives");
        let used = meter.used().expect("it lives");
        assert_eq!(used.groups.len(), 1);
        let half = Used { groups: vec![("a", Duration::from_secs(1))], machine: Duration::from_secs(2) };
        assert_eq!((half.of("a"), half.of("b"), half.accounted()), (Duration::from_secs(1), Duration::ZERO, 0.5));
    }
}
