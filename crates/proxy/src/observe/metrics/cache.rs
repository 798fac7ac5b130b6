//! Metrics of the caches of routes.

use super::Shown;
use crate::cache::counts::{CacheCounts, CacheResult, WholeFetch};
use crate::cache::encodings::Unmade;
use evenkeel_cache::refusal::Refusal;
use evenkeel_compress::coding::Coding;
use evenkeel_disk::{Disk, Stage};
use evenkeel_net::counter::Counter;
use evenkeel_net::pages;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name and help of a family.
type Family<'f> = (&'f str, &'f str);

impl Shown<'_> {
    pub(super) fn cache(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests of routes with a cache, by what it did: a fresh response, a stale one, a stored one that the \
                    endpoint has validated; stored or not stored what the endpoint sent; passed by";
        let family = ("evenkeel_cache_requests", help);
        self.by_label(encoder, family, ("result", &CacheResult::LABELS), |counts, at| &counts.results[at])?;
        let reasons = Refusal::ALL.map(Refusal::label);
        let family = ("evenkeel_cache_not_stored", "Responses of endpoints that were not stored, by the reason");
        self.by_label(encoder, family, ("reason", &reasons), |counts, at| &counts.refused[at])?;
        let help = "Requests that have waited for the response to another request";
        self.by_label(encoder, ("evenkeel_cache_collapsed_requests", help), ("", &[""]), |counts, _| {
            &counts.collapsed
        })?;
        let family = ("evenkeel_cache_sent_bytes", "Bytes of bodies that came from the cache");
        self.by_label(encoder, family, ("", &[""]), |counts, _| &counts.bytes)?;
        let help = "Fetches of whole responses behind requests for a part, by their end";
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
        let behind = self.cache.behind.load(Ordering::Relaxed);
        for (name, help, value) in [
            (
                "evenkeel_cache_bytes",
                "Bytes of memory that stored responses take, with all that is kept for them",
                counts.bytes,
            ),
            ("evenkeel_cache_capacity_bytes", "Bytes of memory that stored responses may take", self.cache.plan.memory),
            ("evenkeel_cache_entries", "Keys under which responses are stored", counts.entries),
            ("evenkeel_cache_objects", "Stored responses, all variants of all keys", counts.objects),
            (
                "evenkeel_cache_fetches_behind",
                "Fetches behind requests: of stale responses, and of whole ones for requests for a part",
                behind,
            ),
            (
                "evenkeel_cache_paged_bodies",
                "Bodies of 64 KiB and more in pages of their own, which HTTP/1.1 without TLS sends without a copy: 16,384 at most, others \
                 are copied",
                pages::count() as u64,
            ),
        ] {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, value) in [
            ("evenkeel_cache_inserted", "Responses stored, those instead of an older one too", counts.inserts),
            ("evenkeel_cache_evicted", "Keys dropped for want of memory", counts.evicted),
            (
                "evenkeel_cache_evicted_bytes",
                "Bytes of memory of the keys that were dropped for want of memory",
                counts.evicted_bytes,
            ),
            ("evenkeel_cache_purged", "Responses that purges and changed content have removed", counts.purged),
            ("evenkeel_cache_made_stale", "Responses that soft purges have made stale", counts.marked),
            (
                "evenkeel_cache_expired",
                "Responses dropped as they were stale, could not be validated, and had been of no use for ten minutes",
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
        let help = "Responses that the store did not take: too large, asked for before a purge, or used less than those \
                    that would have to go for them";
        let mut family = encoder.encode_descriptor("evenkeel_cache_refused", help, None, MetricType::Counter)?;
        for (reason, value) in
            [("too_large", counts.refused_large), ("purged", counts.refused_purged), ("unused", counts.refused_unused)]
        {
            ConstCounter::new(value).encode(family.encode_family(&[("reason", reason)])?)?;
        }
        self.encodings(encoder)?;
        self.disk(encoder)
    }

    /// Writes the results of encodings of stored bodies, if any route encodes them.
    fn encodings(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if !self.plan.routes.iter().any(|route| route.filters.cache.is_some() && route.filters.compress.is_some()) {
            return Ok(());
        }
        let (encodings, read) = (&self.cache.encodings, |counter: &AtomicU64| counter.load(Ordering::Relaxed));
        let counts = &encodings.counts;
        let help = "Stored responses whose body was compressed once for all clients";
        let mut family = encoder.encode_descriptor("evenkeel_cache_encoded", help, None, MetricType::Counter)?;
        for coding in Coding::ALL {
            let labels = [("coding", coding.name())];
            ConstCounter::new(read(&counts.made[coding as usize])).encode(family.encode_family(&labels)?)?;
        }
        for (name, help, counter) in [
            ("evenkeel_cache_encoding_in_bytes", "Bytes of these bodies before", &counts.before),
            ("evenkeel_cache_encoding_out_bytes", "Bytes of these bodies once they were compressed", &counts.after),
        ] {
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(read(counter)).encode(encoder)?;
        }
        let help = "Stored responses whose body was not compressed for all clients: it became no smaller, too many waited, \
                    bodies that came took the memory, or it was no longer stored or had become too large for that";
        let mut family = encoder.encode_descriptor("evenkeel_cache_not_encoded", help, None, MetricType::Counter)?;
        for (at, reason) in Unmade::LABELS.iter().enumerate() {
            ConstCounter::new(read(&counts.unmade[at])).encode(family.encode_family(&[("reason", *reason)])?)?;
        }
        let help = "Stored responses that wait for their body to be compressed";
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
            (
                "evenkeel_cache_disk_open",
                "1 if responses are found on the disk of the cache, 0 if it cannot be used",
                is_open,
            ),
            ("evenkeel_cache_disk_bytes", "Bytes of responses that can be found on disk", counts.bytes),
            ("evenkeel_cache_disk_capacity_bytes", "Bytes that the cache may take on disk", capacity),
            ("evenkeel_cache_disk_objects", "Responses that can be found on disk", counts.objects),
        ] {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, value) in [
            ("evenkeel_cache_disk_reads", "Reads of keys that are on disk and not in memory", counts.reads),
            ("evenkeel_cache_disk_hits", "Reads that have given a response", counts.hits),
            ("evenkeel_cache_disk_writes", "Responses written to disk", counts.writes),
            (
                "evenkeel_cache_disk_written_bytes",
                "Bytes written to disk, with all that is kept for responses",
                counts.written_bytes,
            ),
            (
                "evenkeel_cache_disk_rewrites",
                "Responses written again, as they were used and the oldest part of the disk was reclaimed",
                counts.rewrites,
            ),
            (
                "evenkeel_cache_disk_dropped",
                "Responses not written, as too many waited or the index was full",
                counts.dropped,
            ),
            (
                "evenkeel_cache_disk_reads_dropped",
                "Reads not made, as too many waited or the disk did not answer",
                counts.reads_dropped,
            ),
            (
                "evenkeel_cache_disk_errors",
                "Calls of the disk that have failed, and responses that were not as they were written",
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
