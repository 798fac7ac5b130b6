//! The cache as a resource of filters, which makes the cache of a plan, and its metrics.

use super::clock::CacheClock;
use super::counts::{CacheCounts, CacheResult, CutBy, FillCounts, PassedFor, WholeFetch};
use super::encodings::Unmade;
use super::reasons::reasons;
use super::{SharedCache, disk};
use crate::resource::Resource;
use evenkeel_compress::coding::Coding;
use evenkeel_config::Plan;
use evenkeel_disk::{Disk, Stage};
use evenkeel_net::counter::Counter;
use evenkeel_net::memory::pages;
use evenkeel_runtime::Diagnostic;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name and help of a family.
type Family<'f> = (&'f str, &'f str);

impl Resource for SharedCache {
    const TAKES_OVER: bool = true;

    fn next(plan: &Plan, before: Option<&Arc<SharedCache>>) -> Result<Arc<SharedCache>, Vec<Diagnostic>> {
        let first = || {
            let clock = Arc::<CacheClock>::default();
            let disk = disk::options(plan).map(|options| disk::open(options, &clock));
            SharedCache::new(plan.cache.clone(), disk, clock).into()
        };
        Ok(before.map_or_else(first, |before| before.followed_by(plan)))
    }

    fn collect(&self, plan: &Plan, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        Shown { cache: self, plan }.write(to)
    }
}

/// Cache and plan of a scrape.
struct Shown<'g> {
    cache: &'g SharedCache,
    plan: &'g Plan,
}

impl Shown<'_> {
    fn write(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests of routes with a cache, by result: a fresh response, a stale response, or a stored \
                    response that the endpoint validated; a response of the endpoint that was stored or not stored; a \
                    bypass";
        let family = ("evenkeel_cache_requests", help);
        self.by_label(encoder, family, ("result", &CacheResult::LABELS), |counts, at| &counts.results[at])?;
        let reasons = reasons().map(|(label, _)| label);
        let family = ("evenkeel_cache_not_stored", "Responses of endpoints that were not stored, by reason");
        self.by_label(encoder, family, ("reason", &reasons), |counts, at| &counts.refused[at])?;
        let help = "Requests that waited for the response to another request";
        self.by_label(encoder, ("evenkeel_cache_collapsed_requests", help), ("", &[""]), |counts, _| {
            &counts.collapsed
        })?;
        let family = ("evenkeel_cache_sent_bytes", "Bytes of bodies served from the cache");
        self.by_label(encoder, family, ("", &[""]), |counts, _| &counts.bytes)?;
        let help = "Background fetches of whole responses after requests for a part, by result";
        let family = ("evenkeel_cache_whole_fetches", help);
        self.by_label(encoder, family, ("result", &WholeFetch::LABELS), |counts, at| &counts.whole[at])?;
        self.store(encoder)
    }

    /// Writes the state of the store, if any route has a cache.
    fn store(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.plan.routes.iter().all(|route| route.filters.cache.is_none()) {
            return Ok(());
        }
        let counts = self.cache.store.counts();
        let [fills, unattended] =
            [&self.cache.fills, &self.cache.unattended].map(|count| count.load(Ordering::Relaxed));
        for (name, help, value) in [
            (
                "evenkeel_cache_bytes",
                "Bytes of memory that stored responses use, including their metadata",
                counts.bytes,
            ),
            ("evenkeel_cache_capacity_bytes", "Bytes of memory that stored responses may use", self.cache.plan.memory),
            ("evenkeel_cache_entries", "Keys with stored responses", counts.entries),
            ("evenkeel_cache_objects", "Stored responses: all variants of all keys", counts.objects),
            (
                "evenkeel_cache_fetches_behind",
                "Background fetches in progress: of stale responses, and of whole responses after requests for a part",
                self.cache.behind(),
            ),
            ("evenkeel_cache_fills", "Responses of endpoints whose bodies are arriving to be stored", fills),
            (
                "evenkeel_cache_unattended_fetches",
                "Fetches that continue although all of their clients have left",
                unattended,
            ),
            (
                "evenkeel_cache_paged_bodies",
                "Bodies of 64 KiB and more in separate pages. HTTP/1.1 without TLS sends them without a copy. At most \
                 16,384; other bodies are copied",
                pages::count() as u64,
            ),
        ] {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, value) in [
            ("evenkeel_cache_inserted", "Responses stored, including replacements of older responses", counts.inserts),
            ("evenkeel_cache_evicted", "Keys dropped for lack of memory", counts.evicted),
            (
                "evenkeel_cache_evicted_bytes",
                "Bytes of memory of keys dropped for lack of memory",
                counts.evicted_bytes,
            ),
            ("evenkeel_cache_purged", "Responses removed by purges and changed content", counts.purged),
            ("evenkeel_cache_made_stale", "Responses made stale by soft purges", counts.marked),
            (
                "evenkeel_cache_expired",
                "Responses dropped because they were stale, could not be validated, and were not used for ten minutes",
                counts.over,
            ),
        ] {
            ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        // The ages of evicted keys say whether there is enough memory: their sum, for a mean over any time.
        let help = "Time from the last storing under a key to its eviction, summed over all evicted keys";
        let name = "evenkeel_cache_evicted_age_seconds";
        let seconds = counts.evicted_age_ms as f64 / 1e3;
        ConstCounter::new(seconds).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        let help = "Responses that the store refused: too large, requested before a purge, or used less than the \
                    responses that it would replace";
        let mut family = encoder.encode_descriptor("evenkeel_cache_refused", help, None, MetricType::Counter)?;
        for (reason, value) in
            [("too_large", counts.refused_large), ("purged", counts.refused_purged), ("unused", counts.refused_unused)]
        {
            ConstCounter::new(value).encode(family.encode_family(&[("reason", reason)])?)?;
        }
        self.fills(encoder)?;
        self.encodings(encoder)?;
        self.disk(encoder)
    }

    /// Writes the ends of arriving bodies that are not the ends of whole, stored responses.
    fn fills(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let FillCounts { cut, passed } = &self.cache.counts.fills;
        let of_cut = "Clients that were cut off within an arriving response: the endpoint ended it early or was silent for \
                      too long, the client took almost nothing while others waited for it, or the worker stopped";
        let of_passed = "Arriving responses that turned out too large, or for which memory was used up: they were passed \
                         to the clients that read them, and not stored";
        for (name, help, labels, counters) in [
            ("evenkeel_cache_cut_readers", of_cut, &CutBy::LABELS[..], &cut[..]),
            ("evenkeel_cache_passed_fills", of_passed, &PassedFor::LABELS, passed),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (reason, counter) in labels.iter().zip(counters) {
                let value = counter.load(Ordering::Relaxed);
                ConstCounter::new(value).encode(family.encode_family(&[("reason", *reason)])?)?;
            }
        }
        Ok(())
    }

    /// Writes the results of encodings of stored bodies, if any route encodes them.
    fn encodings(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if !self.plan.routes.iter().any(|route| route.filters.cache.is_some() && route.filters.compress.is_some()) {
            return Ok(());
        }
        let (encodings, read) = (&self.cache.encodings, |counter: &AtomicU64| counter.load(Ordering::Relaxed));
        let counts = &encodings.counts;
        let help = "Stored responses with a body that was compressed once for all clients";
        let mut family = encoder.encode_descriptor("evenkeel_cache_encoded", help, None, MetricType::Counter)?;
        for coding in Coding::ALL {
            let labels = [("coding", coding.name())];
            ConstCounter::new(read(&counts.made[coding as usize])).encode(family.encode_family(&labels)?)?;
        }
        for (name, help, counter) in [
            ("evenkeel_cache_encoding_in_bytes", "Bytes of these bodies before compression", &counts.before),
            ("evenkeel_cache_encoding_out_bytes", "Bytes of these bodies after compression", &counts.after),
        ] {
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(read(counter)).encode(encoder)?;
        }
        let help = "Stored responses with a body that was not compressed for all clients: it did not shrink, too many \
                    responses waited, arriving bodies took the memory, or the response was no longer stored or became \
                    too large";
        let mut family = encoder.encode_descriptor("evenkeel_cache_not_encoded", help, None, MetricType::Counter)?;
        for (at, reason) in Unmade::LABELS.iter().enumerate() {
            ConstCounter::new(read(&counts.unmade[at])).encode(family.encode_family(&[("reason", *reason)])?)?;
        }
        let help = "Stored responses that wait for compression of their body";
        let waiting = encoder.encode_descriptor("evenkeel_cache_encodings_waiting", help, None, MetricType::Gauge)?;
        ConstGauge::new(encodings.waiting() as u64).encode(waiting)
    }

    /// Writes the state of the disk; without a disk, everything is 0.
    fn disk(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let disk = self.cache.disk.as_ref();
        let counts = disk.map(Disk::counts).unwrap_or_default();
        let is_open = u64::from(disk.is_some_and(|disk| disk.stage() == Stage::Open));
        let capacity = disk.map_or(0, |disk| disk.options().size);
        for (name, help, value) in [
            ("evenkeel_cache_disk_open", "1 if the disk of the cache can be read, 0 if it cannot be used", is_open),
            ("evenkeel_cache_disk_bytes", "Bytes of responses on disk", counts.bytes),
            ("evenkeel_cache_disk_capacity_bytes", "Bytes that the cache may use on disk", capacity),
            ("evenkeel_cache_disk_objects", "Responses on disk", counts.objects),
        ] {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, value) in [
            ("evenkeel_cache_disk_reads", "Reads of keys that are on disk but not in memory", counts.reads),
            ("evenkeel_cache_disk_hits", "Reads that returned a response", counts.hits),
            ("evenkeel_cache_disk_writes", "Responses written to disk", counts.writes),
            ("evenkeel_cache_disk_written_bytes", "Bytes written to disk, including metadata", counts.written_bytes),
            (
                "evenkeel_cache_disk_rewrites",
                "Responses written again because they were used and the oldest part of the disk was reclaimed",
                counts.rewrites,
            ),
            (
                "evenkeel_cache_disk_dropped",
                "Responses not written because too many waited or the index was full",
                counts.dropped,
            ),
            (
                "evenkeel_cache_disk_reads_dropped",
                "Reads not attempted because too many waited or the disk did not respond",
                counts.reads_dropped,
            ),
            (
                "evenkeel_cache_disk_errors",
                "Failed disk operations, and responses that differed from what was written",
                counts.errors,
            ),
        ] {
            ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        Ok(())
    }

    /// Writes a counter for each route with a cache and each value of a label; an empty name means no label.
    fn by_label(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): Family<'_>,
        (label, values): (&str, &[&str]),
        counter: impl Fn(&CacheCounts, usize) -> &Counter,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for route in self.plan.routes.iter().filter(|route| route.filters.cache.is_some()) {
            let counts: Vec<Arc<CacheCounts>> = self.cache.counts.of_route(&route.name);
            for (at, value) in values.iter().enumerate() {
                let sum = counts.iter().fold(0, |sum: u64, counts| sum.wrapping_add(counter(counts, at).get()));
                let labels = [("route", &*route.name), (label, *value)];
                let labels = if label.is_empty() { &labels[..1] } else { &labels[..] };
                ConstCounter::new(sum).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
