//! Arguments of `evenkeel cache` and its subcommands.

use crate::arguments::Where;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};

/// Show the cache: memory, evictions, hits of each route, and why responses are not stored; purge stored responses
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Counts are since the start. The hit ratio is the share of cacheable requests that a stored response answered,\n\
                        fresh or stale.\n\n\
                        Examples:\n  \
                        evenkeel cache\n  \
                        evenkeel cache show https://shop.example/cart.js\n  \
                        evenkeel cache purge --tag product-7\n\n\
                        Exit codes: 0 success; 1 no evenkeel can be reached, or no route has a cache."
)]
pub struct Cache {
    #[command(subcommand)]
    pub verb: Option<CacheVerb>,

    #[command(flatten)]
    pub how: How,
}

/// Output format, and the process to ask.
#[derive(Debug, Args)]
pub struct How {
    /// Print JSON, as the API returns it
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: Where,
}

/// Verb of `evenkeel cache`.
#[derive(Debug, Subcommand)]
pub enum CacheVerb {
    Top(CacheTop),
    Show(CacheShow),
    Purge(CachePurge),
}

/// List the most used or the largest URLs of the cache
#[derive(Debug, Args)]
pub struct CacheTop {
    /// Order: most used or largest first
    #[arg(long, value_name = "ORDER", value_enum, default_value = "hits")]
    pub by: CacheOrder,

    /// Number of URLs, 1 to 1000
    #[arg(short, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub n: u16,

    #[command(flatten)]
    pub how: How,
}

/// Order of `evenkeel cache top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheOrder {
    Hits,
    Size,
}

/// Show the stored responses of a URL: fields they vary by, age, remaining freshness, size, tags
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  evenkeel cache show 'https://shop.example/search?q=a'")]
pub struct CacheShow {
    /// Full URL, as clients request it
    #[arg(value_name = "URL")]
    pub url: String,

    #[command(flatten)]
    pub how: How,
}

/// Remove stored responses, or make them stale
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("target").required(true),
    after_help = "Requests that arrive after the purge never get a removed response. Responses that were requested before the\n\
                        purge are not stored.\n\n\
                        Examples:\n  \
                        evenkeel cache purge --url https://shop.example/cart.js\n  \
                        evenkeel cache purge --prefix https://shop.example/images/ --soft\n  \
                        evenkeel cache purge --tag product-7\n\n\
                        Exit codes: 0 success, even if nothing was stored; 1 no evenkeel can be reached, or no route has a cache."
)]
pub struct CachePurge {
    /// Responses of this URL, as clients request it
    #[arg(long, value_name = "URL", group = "target")]
    pub url: Option<String>,

    /// Responses with this URL prefix, which includes the scheme and the full host
    #[arg(long, value_name = "PREFIX", group = "target")]
    pub prefix: Option<String>,

    /// Responses with this tag in Surrogate-Key or Cache-Tag
    #[arg(long, value_name = "TAG", group = "target")]
    pub tag: Option<String>,

    /// All responses of all routes
    #[arg(long, group = "target")]
    pub all: bool,

    /// Make them stale instead: the next request validates or fetches each, as if it had expired
    #[arg(long)]
    pub soft: bool,

    #[command(flatten)]
    pub how: How,
}
