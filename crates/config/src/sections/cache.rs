//! `[cache]`: memory and disk for the responses that routes with `cache` store. See [`CacheMemory`].

use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Declared, Key, Kind, Section, table, words};
use std::path::PathBuf;

table! {
    pub(crate) static CACHE = "[cache]",
        "Memory and disk for the responses that routes with `cache` store. All routes and workers share them, and a \
        reload keeps all stored responses.";

    /// `[cache]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CacheMemory {
        /// Maximum bytes of responses in memory, including their metadata.
        memory: u64 = Key {
            name: "memory",
            kind: Kind::Size { min: 1 << 20, max: 1 << 44, off: false },
            absent: Absent::Default("\"256MiB\""),
            help: "Maximum memory for stored responses. Beyond that, the least requested responses are dropped.",
            why: "Enough for some ten thousand files of a site, and little compared with the memory of a server.",
        };
        /// Largest response to store, in bytes, including its fields.
        object_max: u64 = Key {
            name: "object_max",
            kind: Kind::Size { min: 1 << 10, max: 1 << 36, off: false },
            absent: Absent::Default("\"8MiB\""),
            help: "Largest response to store, including its fields. At most an eighth of `memory`.",
            why: "A single download must not evict a thousand pages.",
        };
        /// Maximum responses of a URL that differ by `Vary`.
        variants_max: usize = Key {
            name: "variants_max",
            kind: Kind::Int { min: 1, max: 1000 },
            absent: Absent::Default("64"),
            help: "Maximum responses of one URL that differ by `Vary`. Beyond that, the least recently used response \
                is dropped.",
            why: "More than the combinations of browsers, languages and codings, and far fewer than the values of \
                cookies.",
        };
        /// Most fetches that continue without a client.
        unattended_fetches_max: usize = Key {
            name: "unattended_fetches_max",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("64"),
            help: "Maximum fetches that continue after their last client has left, so that the response is stored. Such \
                a fetch ends after a minute at the latest. `0` = a fetch ends with its last client.",
            why: "Clients that give up quickly would otherwise keep a slow page from being stored, and without a limit \
                they could make endpoints work for nothing.",
        };
        /// Second tier on disk; `None` = memory only.
        disk: Option<CacheDisk> = Key {
            name: "disk",
            kind: Kind::Table(&DISK),
            absent: Absent::Means("memory only"),
            help: "Disk for responses that do not fit in memory. They are available again after a restart.",
            why: "",
        };
    }
}

table! {
    pub(crate) static DISK = "disk of [cache]",
        "Disk for stored responses. Responses are written to it when memory drops them, see `admit`. When the process \
        ends, all responses in memory are written.";

    /// `disk` of `[cache]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CacheDisk {
        /// Folder of the file, for this process alone.
        path: PathBuf = Key {
            name: "path",
            kind: Kind::Text(Form::File),
            absent: Absent::Required("\"/var/cache/evenkeel\""),
            help: "Folder of the cache file, used only by this process. Created if its parent exists.",
            why: "",
        };
        /// Size of the file in bytes.
        size: u64 = Key {
            name: "size",
            kind: Kind::Size { min: 1 << 20, max: 1 << 44, off: false },
            absent: Absent::Default("\"1GiB\""),
            help: "Size of the file. The space is allocated at startup. The index takes about 30 bytes of memory per \
                response.",
            why: "Several times the default memory, and little compared with the disk of a server.",
        };
        /// Responses that are written when memory drops them.
        admit: CacheAdmit = Key {
            name: "admit",
            kind: Kind::Choice(CacheAdmit::WORDS),
            absent: Absent::Default("\"reused\""),
            help: "Responses that are written when memory drops them. `reused`: while the file has room, all of them; \
                once it is full, only responses that were requested at least twice. `all`: all of them, so that a \
                full file loses its oldest responses for them.",
            why: "A crawler that requests everything once would replace the responses that others request.",
        };
    }
}

words! {
    /// Responses that are written to the disk when memory drops them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CacheAdmit {
        /// All while there is room, then those that were requested at least twice.
        Reused = "reused",
        /// All, so that a full file loses its oldest responses.
        All = "all",
    }
}

/// Reports a largest body that takes too much of the memory.
pub(crate) fn check(cache: &Section, findings: &mut Findings) {
    let set = CacheMemory::of(cache);
    if set.object_max > set.memory / 8 {
        let (key, other) = if cache.has("object_max") { ("object_max", "memory") } else { ("memory", "object_max") };
        let message = "\"object_max\" is more than an eighth of \"memory\"";
        cache.contradiction(cache.span_of(key), message, other, findings).help(format!(
            "set object_max = \"{}KiB\" or less, or memory to eight times as much",
            set.memory / 8 / 1024
        ));
    }
}
