//! Filter that paces bodies and tunnels by leaky buckets: a bucket of the route for each direction over all
//! workers, and two of each connection.

use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Direction, Pace};
use crate::core::Core;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, ResponseHead};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::resource::Resource;
use evenkeel_balance::time::{MILLISECOND_NS, SECOND_NS};
use evenkeel_balance::{Clock, Instant};
use evenkeel_config::Plan;
use evenkeel_config::plan;
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_runtime::Diagnostic;
use evenkeel_wire::head::Request;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time that may be caught up after a pause.
const BURST_NS: u64 = 100 * MILLISECOND_NS;

/// Pieces in a second at slow rates, so that bytes do not come in bursts.
const PIECES: u64 = 20;

/// Fewest bytes of a piece.
const PIECE_MIN: u64 = 512;

/// Paces the bodies of a route that limits bandwidth.
struct Pacing {
    bandwidth: Arc<Bandwidth>,
    core: Rc<Core>,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?;
    let bandwidth = from.resources.of::<Bandwidths>().of(&route.plan.name)?.clone();
    Some(Box::new(Pacing { bandwidth, core: route.prober.core().clone() }))
}

impl Filter for Pacing {
    type State = ();

    fn request_body(&self, own: &mut Own<()>, cx: &Exchange<'_>, _: &Request<'_, '_>) -> Option<Box<dyn BodyFilter>> {
        self.tunnel(own, cx, Direction::Upload)
    }

    fn response_body(
        &self,
        own: &mut Own<()>,
        cx: &Exchange<'_>,
        _: &ResponseHead<'_, '_, '_>,
    ) -> Option<Box<dyn BodyFilter>> {
        self.tunnel(own, cx, Direction::Download)
    }

    fn tunnel(&self, _: &mut Own<()>, cx: &Exchange<'_>, direction: Direction) -> Option<Box<dyn BodyFilter>> {
        if !self.bandwidth.limits(direction) {
            return None;
        }
        let (bandwidth, core) = (self.bandwidth.clone(), self.core.clone());
        Some(Box::new(Paced { bandwidth, core, connection: cx.of_connection(), direction }))
    }
}

impl Pure for Pacing {}

/// A body that passes in pieces, each once the bandwidth has room for it.
struct Paced {
    bandwidth: Arc<Bandwidth>,
    core: Rc<Core>,
    connection: Rc<Paces>,
    direction: Direction,
}

impl BodyFilter for Paced {
    fn keeps_length(&self) -> bool {
        true
    }

    fn may_pause(&self) -> bool {
        true
    }

    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit> {
        let piece = self.bandwidth.piece(self.direction);
        if from.len() <= piece {
            // Passed on without a copy.
            *to = std::mem::replace(from, Buf::none());
        } else {
            *to = Buf::holding(&from.filled()[..piece]);
            from.consume(piece);
        }
        Ok(Pace::Pause(self.bandwidth.pace(self.direction, &self.connection, to.len(), self.core.clock.now())))
    }
}

/// Bandwidth of all routes of a plan that limit it.
#[derive(Debug, Default)]
pub struct Bandwidths(HashMap<Arc<str>, Arc<Bandwidth>>);

/// Bandwidth of a route as planned, and its state.
#[derive(Debug)]
pub struct Bandwidth {
    plan: plan::Bandwidth,
    state: Arc<State>,
}

/// State of a route's bandwidth, kept across plans.
#[derive(Debug, Default)]
struct State {
    /// Time in ns from which on the route may send and receive again, by [`Direction`].
    free_at: [AtomicU64; 2],
    delayed_ns: AtomicU64,
}

/// Times in ns from which on a connection may send and receive again, by [`Direction`].
#[derive(Debug, Default)]
pub struct Paces([Cell<u64>; 2]);

impl Resource for Bandwidths {
    /// Bandwidth of the routes of a plan. Routes that had a limit before keep its state.
    fn next(plan: &Plan, before: Option<&Arc<Bandwidths>>) -> Result<Arc<Bandwidths>, Vec<Diagnostic>> {
        let limited = plan.routes.iter().filter(|route| !route.filters.bandwidth.is_open());
        let next = |route: &plan::Route| {
            let before = before.and_then(|before| before.of(&route.name));
            let state = before.map_or_else(Arc::default, |before| before.state.clone());
            Arc::new(Bandwidth { plan: route.filters.bandwidth, state })
        };
        Ok(Arc::new(Bandwidths(limited.map(|route| (route.name.clone(), next(route))).collect())))
    }

    fn collect(&self, plan: &Plan, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "evenkeel_http_bandwidth_delay_seconds";
        let help = "Time that parts of bodies waited for the bandwidth of their route, summed over all parts";
        let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
        for route in plan.routes.iter() {
            let Some(bandwidth) = self.of(&route.name) else { continue };
            let seconds = bandwidth.delayed_ns() as f64 / SECOND_NS as f64;
            ConstCounter::new(seconds).encode(family.encode_family(&[("route", &*route.name)])?)?;
        }
        Ok(())
    }
}

impl Bandwidths {
    /// Bandwidth of a route, if it is limited.
    pub fn of(&self, route: &str) -> Option<&Arc<Bandwidth>> {
        self.0.get(route)
    }
}

impl Bandwidth {
    /// True if bytes of this direction are limited.
    fn limits(&self, direction: Direction) -> bool {
        self.rates(direction) != (None, None)
    }

    /// Returns the most bytes to pass at once in this direction, at most a buffer.
    pub fn piece(&self, direction: Direction) -> usize {
        let (route, connection) = self.rates(direction);
        let least = route.into_iter().chain(connection).min();
        least.map_or(CAPACITY, |rate| (rate / PIECES).clamp(PIECE_MIN, CAPACITY as u64) as usize)
    }

    /// Counts bytes that are to pass now. Returns the time in ns after which they may.
    pub fn pace(&self, direction: Direction, connection: &Paces, bytes: usize, now: Instant) -> u64 {
        let (of_route, of_connection) = self.rates(direction);
        let mut wait = 0;
        if let Some(rate) = of_connection {
            let free_at = &connection.0[direction as usize];
            wait = free_at.get().saturating_sub(now.0);
            free_at.set(freed(free_at.get(), rate, bytes, now));
        }
        if let Some(rate) = of_route {
            let next = |before| Some(freed(before, rate, bytes, now));
            let (Ok(before) | Err(before)) =
                self.state.free_at[direction as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            wait = wait.max(before.saturating_sub(now.0));
        }
        if wait > 0 {
            self.state.delayed_ns.fetch_add(wait, Ordering::Relaxed);
        }
        wait
    }

    /// Time in ns for which bytes have waited, summed over all pieces.
    pub fn delayed_ns(&self) -> u64 {
        self.state.delayed_ns.load(Ordering::Relaxed)
    }

    /// Bytes in a second of the route and of a connection.
    fn rates(&self, direction: Direction) -> (Option<u64>, Option<u64>) {
        match direction {
            Direction::Download => (self.plan.download, self.plan.download_per_connection),
            Direction::Upload => (self.plan.upload, self.plan.upload_per_connection),
        }
    }
}

/// Time in ns at which these bytes have passed at `rate`.
fn freed(free_at: u64, rate: u64, bytes: usize, now: Instant) -> u64 {
    let cost = (bytes as u64).saturating_mul(SECOND_NS) / rate.max(1);
    free_at.max(now.0.saturating_sub(BURST_NS)).saturating_add(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bandwidth(download: Option<u64>, download_per_connection: Option<u64>) -> Bandwidth {
        let plan = plan::Bandwidth { download, download_per_connection, ..plan::Bandwidth::default() };
        Bandwidth { plan, state: Arc::default() }
    }

    /// Passes pieces of a kilobyte for ten seconds, each connection as fast as it may. Returns bytes by connection.
    fn passed(bandwidth: &Bandwidth, connections: usize) -> Vec<u64> {
        let paces: Vec<Paces> = (0..connections).map(|_| Paces::default()).collect();
        let (mut next, mut bytes) = (vec![SECOND_NS; connections], vec![0; connections]);
        loop {
            let at = (0..connections).min_by_key(|&at| next[at]).expect("there are some");
            if next[at] >= 11 * SECOND_NS {
                return bytes;
            }
            bytes[at] += 1000;
            next[at] += bandwidth.pace(Direction::Download, &paces[at], 1000, Instant(next[at]));
        }
    }

    #[test]
    fn a_route_and_each_connection_get_what_they_may_and_share_it_evenly() {
        let near = |bytes: u64, wanted: u64| bytes.abs_diff(wanted) <= wanted / 20;
        let all = passed(&bandwidth(Some(1_000_000), None), 4);
        assert!(near(all.iter().sum(), 10_000_000) && all.iter().all(|&each| near(each, 2_500_000)), "{all:?}");
        let all = passed(&bandwidth(None, Some(100_000)), 3);
        assert!(all.iter().all(|&each| near(each, 1_010_000)), "{all:?}");
        let all = passed(&bandwidth(Some(150_000), Some(100_000)), 2);
        assert!(near(all.iter().sum(), 1_500_000), "{all:?}");
        let all = passed(&bandwidth(Some(1_000_000), Some(100_000)), 2);
        assert!(all.iter().all(|&each| near(each, 1_010_000)), "{all:?}");
    }

    #[test]
    fn a_pause_is_caught_up_for_a_tenth_of_a_second_only() {
        let (bandwidth, paces) = (bandwidth(Some(1_000_000), None), Paces::default());
        let mut now = SECOND_NS;
        let mut at_once = 0;
        while bandwidth.pace(Direction::Download, &paces, 1000, Instant(now)) == 0 {
            at_once += 1;
        }
        assert!((100..=102).contains(&at_once), "{at_once}");
        now += 3600 * SECOND_NS;
        at_once = 0;
        while bandwidth.pace(Direction::Download, &paces, 1000, Instant(now)) == 0 {
            at_once += 1;
        }
        assert!((100..=102).contains(&at_once), "{at_once}");
        assert!(bandwidth.pace(Direction::Upload, &paces, 1000, Instant(now)) == 0, "the other direction has no limit");
        assert!(bandwidth.delayed_ns() > 0);
    }

    #[test]
    fn slow_rates_pass_small_pieces() {
        for (rate, piece) in [(None, CAPACITY), (Some(1 << 30), CAPACITY), (Some(100_000), 5_000), (Some(1024), 512)] {
            assert_eq!(bandwidth(rate, None).piece(Direction::Download), piece, "{rate:?}");
        }
    }
}
