//! `envoy.filters.http.compressor`: `compress` of routes.

use super::behind::Behind;
use crate::compression::types;
use crate::ledger::Ledger;
use crate::tree::Node;
use evenkeel_config::plan::{Algorithm, Compress};

/// Codings by a word in the name or type of the library.
const LIBRARIES: [(&str, Algorithm); 3] =
    [("gzip", Algorithm::Gzip), ("brotli", Algorithm::Brotli), ("zstd", Algorithm::Zstd)];

/// Types that Envoy compresses if none are named.
const TYPES: [&str; 8] = [
    "application/javascript",
    "application/json",
    "application/xhtml+xml",
    "image/svg+xml",
    "text/css",
    "text/html",
    "text/plain",
    "text/xml",
];

/// Length from which Envoy compresses if none is stated.
const MIN_LENGTH: u64 = 30;

/// Adds the settings of a compressor to the routes. False if the filter is not a compressor.
pub(super) fn read(filter: &Node, routes: &mut [Behind<'_>], ledger: &mut Ledger) -> bool {
    let text = |path: &str| filter.at(path).and_then(Node::text).unwrap_or_default().to_ascii_lowercase();
    if !text("typed_config.@type").contains("compressor") && !text("name").contains("http.compressor") {
        return false;
    }
    let library =
        text("typed_config.compressor_library.name") + &text("typed_config.compressor_library.typed_config.@type");
    let coding = LIBRARIES.iter().find(|(word, _)| library.contains(word)).map(|(_, coding)| *coding);
    let Some(coding) = coding else {
        filter.lost("its library was not recognised", "compress = true in the [[route]]", ledger);
        return true;
    };
    let of_responses = "typed_config.response_direction_config.common_config";
    let direct = |key: &str| [format!("{of_responses}.{key}"), format!("typed_config.{key}")];
    let named: Vec<String> = direct("content_type").iter().flat_map(|path| filter.texts(path, ledger)).collect();
    let least = direct("min_content_length").iter().find_map(|path| filter.take(path, ledger)?.parse::<u64>().ok());
    for path in [
        "name",
        "typed_config.@type",
        "typed_config.compressor_library.name",
        "typed_config.compressor_library.typed_config.@type",
    ] {
        filter.take(path, ledger);
    }
    filter.lost("the compressor has no such setting here", "compress of the [[route]]", ledger);
    let named = types(named.iter().map(String::as_str));
    let types = if named.is_empty() { TYPES.map(String::from).to_vec() } else { named };
    let only = Compress {
        algorithms: vec![coding],
        types: types.into_iter().map(Into::into).collect(),
        min_length: least.unwrap_or(MIN_LENGTH),
        ..Compress::default()
    };
    for route in routes {
        match &mut route.filters.compress {
            // Another compressor: its types and length hold for both.
            Some(compress) if compress.algorithms.contains(&coding) => {}
            Some(compress) => compress.algorithms.push(coding),
            None => route.filters.compress = Some(only.clone()),
        }
    }
    true
}
