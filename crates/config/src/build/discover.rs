//! `[resolver]`, and `discover` of a pool.

use super::contradiction;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::plan::{Discover, Dns, Records, Resolver, Source};
use crate::quantity::duration_text;
use crate::read::Section;
use std::path::PathBuf;

pub(super) fn resolver(root: &Section, findings: &mut Findings) -> Resolver {
    let resolver = root.section("resolver");
    let addr = |(formed, _)| if let Formed::Bind(addr) = formed { Some(addr) } else { None };
    let nameservers = resolver.formed_list("nameservers").into_iter().filter_map(addr).collect();
    let min_ttl = resolver.duration("min_ttl").unwrap_or_default();
    let max_ttl = resolver.duration("max_ttl").unwrap_or_default();
    if !resolver.is_broken() && min_ttl > max_ttl {
        let (min, max) = (duration_text(min_ttl), duration_text(max_ttl));
        let (one, other) =
            if resolver.set("max_ttl").is_some() { ("max_ttl", "min_ttl") } else { ("min_ttl", "max_ttl") };
        let message = format!("\"min_ttl\" ({min}) is longer than \"max_ttl\" ({max})");
        contradiction(&resolver, resolver.place_of(one), message, other, findings)
            .help("lower the one or raise the other");
    }
    Resolver { nameservers, search: resolver.flag("search"), min_ttl, max_ttl }
}

pub(super) fn discover(pool: &Section, resolver: &Resolver, findings: &mut Findings) -> Option<Discover> {
    let set = pool.set("discover")?;
    let section = pool.section("discover");
    let source = match (section.set("dns"), section.set("file")) {
        (Some(dns), Some(_)) => {
            contradiction(&section, dns.place, "a pool has one source: \"dns\" or \"file\"", "file", findings)
                .help("keep one of the two; another pool can have the other");
            return None;
        }
        (Some(_), None) => Source::Dns(dns(&section.section("dns"), resolver, findings)?),
        (None, Some(_)) => Source::File(PathBuf::from(section.text("file")?)),
        (None, None) => {
            if !set.is_broken() {
                findings
                    .add(Code::Missing, set.place, "\"discover\" says nowhere to look")
                    .help("add dns = { name = \"web.internal\", port = 8080 }, or file = \"PATH\"");
            }
            return None;
        }
    };
    Some(Discover { source, allow_empty: section.flag("allow_empty") })
}

fn dns(section: &Section, resolver: &Resolver, findings: &mut Findings) -> Option<Dns> {
    let records = match section.word("type") {
        "A" => Records::A,
        "AAAA" => Records::Aaaa,
        "SRV" => Records::Srv,
        _ => Records::Addresses,
    };
    match (records, section.set("port")) {
        (Records::Srv, Some(port)) => {
            contradiction(section, port.place, "\"port\" is what SRV records say themselves", "type", findings)
                .help("leave \"port\" out, or ask for another type");
        }
        (Records::Srv, None) | (_, Some(_)) => {}
        (_, None) if section.is_broken() => {}
        (_, None) => {
            findings
                .add(
                    Code::Missing,
                    section.place,
                    "\"dns\" has no \"port\", and addresses do not say where endpoints listen",
                )
                .help("add port = 8080, or type = \"SRV\" for records that have it");
        }
    }
    let min_ttl = section.set("min_ttl").and_then(|_| section.duration("min_ttl")).unwrap_or(resolver.min_ttl);
    Some(Dns { name: section.text("name")?, records, port: section.number("port"), min_ttl })
}
