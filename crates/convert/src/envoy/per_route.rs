//! `typed_per_filter_config`: settings of a filter for a virtual host or a route. See [`settings`].

use super::read::each;
use crate::ledger::Line;
use crate::tree::{Kind, Node};

/// Difference of a route from the filter chain, in the settings of a filter.
pub(super) enum Settings<'n> {
    /// The settings of the filter chain.
    Same,
    /// The line that turns the filter off.
    Off(Line),
    /// A table that replaces the settings of the filter chain.
    Other(&'n Node),
}

/// Settings of the filter `name` for a route, or for the requests of a virtual host without a route. The most specific
/// count.
pub(super) fn settings<'n>(manager: &'n Node, host: &str, label: Option<&str>, name: &str) -> Settings<'n> {
    let config = manager.get("route_config");
    let host = config.and_then(|config| each(config, "virtual_hosts").find(|one| text(one, "name") == Some(host)));
    let route = host.zip(label).and_then(|(host, label)| {
        let named = |(at, route): &(usize, &Node)| match text(route, "name").filter(|name| !name.is_empty()) {
            Some(name) => name == label,
            None => at.to_string() == label,
        };
        each(host, "routes").enumerate().find(named).map(|(_, route)| route)
    });
    let own = [route, host, config].into_iter().flatten();
    let found = own.filter_map(|of| of.get("typed_per_filter_config")?.entries().iter().find(|(key, _)| key == name));
    let Some((_, table)) = found.into_iter().next() else { return Settings::Same };
    let kind = text(table, "@type").unwrap_or_default();
    let is_generic = kind.ends_with("config.route.v3.FilterConfig");
    let is_off = is_generic && text(table, "disabled") == Some("true")
        || kind.ends_with("PerRoute") && table.entries().len() == 1;
    match is_off {
        true => Settings::Off(table.line),
        false if is_generic => table.get("config").map_or(Settings::Same, Settings::Other),
        false => Settings::Other(table),
    }
}

/// True if routes or virtual hosts have settings of the filter `name`.
pub(super) fn has_settings(manager: &Node, name: &str) -> bool {
    fn within(node: &Node, name: &str) -> bool {
        match &node.kind {
            Kind::Text(_) => false,
            Kind::List(list) => list.iter().any(|inner| within(inner, name)),
            Kind::Map(entries) => entries.iter().any(|(key, inner)| {
                key == "typed_per_filter_config" && inner.entries().iter().any(|(key, _)| key == name)
                    || within(inner, name)
            }),
        }
    }
    manager.get("route_config").is_some_and(|config| within(config, name))
}

fn text<'n>(of: &'n Node, key: &str) -> Option<&'n str> {
    of.get(key).and_then(Node::text)
}
