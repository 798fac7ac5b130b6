//! The `process_*` metrics that Prometheus dashboards expect, from `/proc/self`. Without `/proc` there are no such
//! metrics.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

/// The collector, to be registered without a prefix.
#[derive(Debug, Default)]
pub struct Process;

/// The fields of `/proc/self/stat` that are shown (proc(5) counts from 1).
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    /// The name of the process, in brackets, may contain anything, brackets too: so fields are counted from its end.
    fn parse(text: &str) -> Option<Stat> {
        let (_, behind) = text.rsplit_once(')')?;
        let fields: Vec<&str> = behind.split_ascii_whitespace().collect();
        // The first field after the name is number 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// Seconds since 1970 at which the machine started.
fn booted() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stat = std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text));
        let Some(stat) = stat else { return Ok(()) };
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as u64;

        let help = "CPU time of the process, user and system";
        let family = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(stat.cpu_ticks as f64 / ticks).encode(family)?;
        if let Some(booted) = booted() {
            let help = "Unix time when the process started";
            let family = encoder.encode_descriptor("process_start_time_seconds", help, None, MetricType::Gauge)?;
            ConstGauge::new(booted as f64 + stat.start_ticks as f64 / ticks).encode(family)?;
        }
        // A single descriptor reads the folder.
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, |fds| fds.count().saturating_sub(1) as u64);
        // Unlimited shows as 0, as other exporters do.
        let open_max = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(0);
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory of the process", stat.resident_pages * page),
            ("process_virtual_memory_bytes", "Address space of the process", stat.virtual_bytes),
            ("process_open_fds", "Open file descriptors", open),
            ("process_max_fds", "Maximum open file descriptors of the process", open_max),
            ("process_threads", "Threads", stat.threads),
        ] {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(family)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_process_with_an_odd_name() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194304 1 2 3 4 150 50 7 8 20 0 5 0 9000 1048576 256 1844 1 1";
        let want =
            Stat { cpu_ticks: 200, threads: 5, start_ticks: 9000, virtual_bytes: 1_048_576, resident_pages: 256 };
        assert_eq!(Stat::parse(text), Some(want));
        assert_eq!(Stat::parse("42 (a"), None);
        assert_eq!(Stat::parse("42 (a) S 1"), None);
    }
}
