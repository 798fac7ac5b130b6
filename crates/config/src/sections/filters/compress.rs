//! `compress` of a route: compression of responses for clients that accept it. See [`Compress`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table, words};
use std::sync::Arc;

table! {
    static COMPRESS_TABLE = "compress of [[route]]",
        "Compresses responses for clients that accept it, including responses from the cache and evenkeel's own. \
        Responses that are already compressed, partial responses, gRPC, and responses with `no-transform` are not \
        changed.";

    /// `compress` of a route.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Compress {
        /// Codings in the order of preference.
        algorithms: Vec<Algorithm> = Key {
            name: "algorithms",
            kind: Kind::List(&Kind::Choice(Algorithm::WORDS)),
            absent: Absent::Default(r#"["zstd", "gzip", "br"]"#),
            help: "Codings in order of preference. A client gets the coding with its highest weight; among equal \
                weights, the first in this list.",
            why: "By measured time and size: zstd takes a third of the time of gzip for about the same size. Brotli \
                takes two to three times the time of gzip for a size that is some percent smaller.",
        };
        /// Media types of responses that are compressed; `text/*` is every subtype.
        types: Vec<Arc<str>> = Key {
            name: "types",
            kind: Kind::List(&Kind::Text(Form::MediaType)),
            absent: Absent::Default(TYPES),
            help: "Media types of responses to compress, without parameters. `text/*` matches every subtype.",
            why: "Text, and types that compress as well as text. Most images, videos and archives are already \
                compressed.",
        };
        /// Length of the shortest body that is compressed, in bytes, if it is known.
        min_length: u64 = Key {
            name: "min_length",
            kind: Kind::Size { min: 0, max: 1 << 30, off: false },
            absent: Absent::Default("\"1KiB\""),
            help: "Shortest body to compress, if its length is stated.",
            why: "A shorter body usually fits into one packet with its head anyway, compressed or not.",
        };
        /// Effort of all codings, or levels by coding.
        level: CompressLevel = Key {
            name: "level",
            kind: Kind::TableOr { table: &LEVEL_TABLE, key: "all" },
            absent: Absent::Default("\"default\""),
            help: "Effort: `fast`, `default` or `best`, or a level by coding.",
            why: "",
        };
    }
}

const TYPES: &str = r#"["text/*", "application/json", "application/javascript", "application/xml", "application/xhtml+xml", "application/rss+xml", "application/atom+xml", "application/ld+json", "application/problem+json", "application/manifest+json", "application/geo+json", "application/graphql-response+json", "application/x-ndjson", "application/wasm", "image/svg+xml", "image/bmp", "font/ttf", "font/otf", "application/vnd.ms-fontobject"]"#;

table! {
    static LEVEL_TABLE = "compress.level of [[route]]",
        "Effort of compression. A plain string applies to all codings.";

    /// Effort of compression, of all codings and by coding.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CompressLevel {
        /// Effort of codings that set no level.
        all: Effort = Key {
            name: "all",
            kind: Kind::Choice(Effort::WORDS),
            absent: Absent::Default("\"default\""),
            help: "Effort of codings that have no level set. `fast` is zstd 1, gzip 2, br 2; `default` is zstd 3, gzip \
                5, br 4; `best` is zstd 6, gzip 7, br 5.",
            why: "gzip 5 takes about as much time here as level 1 of zlib, and responses become nearly as small as \
                with its level 6.",
        };
        /// Level of Zstandard, 1 to 7; `None` = by `all`.
        zstd: Option<u8> = Key {
            name: "zstd",
            kind: Kind::Int { min: 1, max: 7 },
            absent: Absent::Means("set by `all`"),
            help: "Level of zstd. Higher levels would block a worker for milliseconds at a time.",
            why: "",
        };
        /// Level of gzip, 1 to 9; `None` = by `all`.
        gzip: Option<u8> = Key {
            name: "gzip",
            kind: Kind::Int { min: 1, max: 9 },
            absent: Absent::Means("set by `all`"),
            help: "Level of gzip.",
            why: "",
        };
        /// Level of Brotli, 0 to 5; `None` = by `all`.
        br: Option<u8> = Key {
            name: "br",
            kind: Kind::Int { min: 0, max: 5 },
            absent: Absent::Means("set by `all`"),
            help: "Level of Brotli. Higher levels would block a worker for milliseconds at a time.",
            why: "",
        };
    }
}

words! {
    /// Content coding of responses (RFC 9110 section 8.4.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Algorithm {
        /// Zstandard (RFC 8878), level 1 to 7.
        Zstd = "zstd",
        /// Brotli (RFC 7932), level 0 to 5.
        Brotli = "br",
        /// gzip (RFC 1952), which every client reads.
        Gzip = "gzip",
    }
}

words! {
    /// Effort of compression, which each coding has a level for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Effort {
        /// Least time, for more bytes.
        Fast = "fast",
        /// Balance of time and bytes.
        Default = "default",
        /// Fewest bytes, for two to three times the default time.
        Best = "best",
    }
}

/// The key `compress` of routes.
pub(in crate::sections) const COMPRESS: Key = Key {
    name: "compress",
    kind: Kind::TableOrBool(&COMPRESS_TABLE),
    absent: Absent::Default("false"),
    help: "Compresses responses for clients that accept it.",
    why: "",
};

/// Reports codings that are named twice, and patterns of types that match nothing.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    let compress = route.section("compress");
    let named = compress.texts("algorithms");
    for (at, (name, span)) in named.iter().enumerate() {
        if named[..at].iter().any(|(other, _)| other == name) {
            findings
                .add(Code::Contradiction, *span, format!("\"{name}\" is named twice"))
                .help("leave one of them out");
        }
    }
    for (media_type, span) in compress.texts("types") {
        let is_pattern = match media_type.split_once('/') {
            Some(("*", sub)) => sub == "*",
            Some((main, sub)) => !main.contains('*') && (sub == "*" || !sub.contains('*')),
            None => true,
        };
        if !is_pattern || media_type.contains(';') {
            findings
                .add(Code::NotAllowed, span, format!("\"{media_type}\" matches no type"))
                .help("write a type without parameters, such as \"application/json\", or \"text/*\" or \"*/*\"");
        }
    }
}
