//! Filter that sends a fixed host to endpoints. The host of an endpoint belongs to each try, and is written with it.

use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use evenkeel_config::plan::SendHost;
use std::borrow::Cow;
use std::sync::Arc;

enum Host {
    Fixed(Arc<str>),
    OfEndpoint,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    match &from.route.as_ref()?.plan.filters.send_host {
        SendHost::Client => None,
        SendHost::Endpoint => Some(Box::new(Host::OfEndpoint)),
        SendHost::Fixed(host) => Some(Box::new(Host::Fixed(host.clone()))),
    }
}

impl Filter for Host {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match self {
            Host::Fixed(host) => head.edits.set_host(host.as_bytes()),
            Host::OfEndpoint => cx.facts.sends_host_of_endpoint = true,
        }
        Verdict::Next
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        match (self, &cx.facts.endpoint) {
            (Host::Fixed(host), _) => format!("host {host}").into(),
            (Host::OfEndpoint, Some(endpoint)) => format!("host of {}", endpoint.name).into(),
            (Host::OfEndpoint, None) => "".into(),
        }
    }
}

impl Pure for Host {}
