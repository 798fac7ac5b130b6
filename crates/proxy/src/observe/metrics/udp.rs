//! Metrics of UDP flows, by listener.

use super::modes::is_udp;
use super::{Family, Shown};
use crate::observe::flow_end::{FlowEnd, LostDatagram};
use crate::observe::stats::{Counter, UdpStats};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

/// Name, help, the name of the label, and its values with their counters.
type Labelled = (&'static str, &'static str, &'static str, &'static [&'static str], fn(&UdpStats, usize) -> &Counter);

impl Shown<'_> {
    /// UDP listeners, each with its index and name.
    fn of_datagrams(&self) -> impl Iterator<Item = (usize, &str)> {
        self.speaking(is_udp).map(|(i, l)| (i, &*l.name))
    }

    pub(super) fn udp(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counters: [Family<UdpStats, Counter>; 2] = [
            ("evenkeel_udp_flows", "Flows started: one per client address and port", |u| &u.flows),
            ("evenkeel_udp_flows_moved", "Flows moved to another endpoint because theirs was gone", |u| &u.moved),
        ];
        for (name, help, counter) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (i, listener) in self.of_datagrams() {
                let n = self.sum(|w| counter(&w.listeners[i].udp));
                ConstCounter::new(n).encode(family.encode_family(&[("listener", listener)])?)?;
            }
        }
        let labelled: [Labelled; 4] = [
            ("evenkeel_udp_flows_ended", "Flows that have ended, by reason", "reason", &FlowEnd::LABELS, |u, i| {
                &u.ended[i]
            }),
            ("evenkeel_udp_datagrams", "Datagrams from and to clients", "direction", &["in", "out"], |u, i| {
                [&u.datagrams_in, &u.datagrams_out][i]
            }),
            ("evenkeel_udp_bytes", "Bytes in datagrams from and to clients", "direction", &["in", "out"], |u, i| {
                [&u.bytes_in, &u.bytes_out][i]
            }),
            ("evenkeel_udp_lost", "Dropped datagrams, by reason", "reason", &LostDatagram::LABELS, |u, i| &u.lost[i]),
        ];
        for (name, help, label, values, counter) in labelled {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (i, listener) in self.of_datagrams() {
                for (at, value) in values.iter().enumerate() {
                    let n = self.sum(|w| counter(&w.listeners[i].udp, at));
                    ConstCounter::new(n).encode(family.encode_family(&[("listener", listener), (label, *value)])?)?;
                }
            }
        }
        let name = "evenkeel_udp_flow_duration_seconds";
        let help = "Time from the first datagram of a flow to its end; route \"none\" if there was none";
        let mut durations = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (listener, route, numbers) in self.routes(is_udp) {
            let labels = vec![("listener", listener), ("route", route)];
            self.histogram(&mut durations, &labels, numbers.iter().map(|route| &route.session))?;
        }
        let mut active =
            encoder.encode_descriptor("evenkeel_udp_flows_active", "Open flows", None, MetricType::Gauge)?;
        for (i, listener) in self.of_datagrams() {
            let n = self.sum(|w| &w.listeners[i].udp.active);
            ConstGauge::new(n).encode(active.encode_family(&[("listener", listener)])?)?;
        }
        Ok(())
    }
}
