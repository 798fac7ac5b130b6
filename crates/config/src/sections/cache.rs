//! `[cache]`: memory and disk for the responses that routes with `cache` store. See [`CacheMemory`].

use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::path::PathBuf;

table! {
    pub(crate) static CACHE = "[cache]",
        "Memory for the responses that routes with `cache` store, and a disk beside it. All routes and workers share them, \
        and a reload keeps what is stored.";

    /// `[cache]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CacheMemory {
        /// Most bytes of responses in memory, with all that is kept for them.
        memory: u64 = Key {
            name: "memory",
            kind: Kind::Size { min: 1 << 20, max: 1 << 44, off: false },
            absent: Absent::Default("\"256MiB\""),
            help: "Most memory for stored responses. Of more, those that are asked for least are dropped.",
            why: "Room for some ten thousand files of a site, and small beside the memory of a server.",
        };
        /// Largest response that is stored, in bytes, with its fields.
        object_max: u64 = Key {
            name: "object_max",
            kind: Kind::Size { min: 1 << 10, max: 1 << 36, off: false },
            absent: Absent::Default("\"8MiB\""),
            help: "Largest response that is stored, with its fields. At most an eighth of `memory`.",
            why: "One download must not drop a thousand pages.",
        };
        /// Most responses of a URL that differ by `Vary`.
        variants_max: usize = Key {
            name: "variants_max",
            kind: Kind::Int { min: 1, max: 1000 },
            absent: Absent::Default("64"),
            help: "Most responses of one URL that differ by `Vary`. The least recently used goes first.",
            why: "More than browsers, languages and codings make, and far fewer than cookies would.",
        };
        /// Second tier on disk; `None` = memory alone.
        disk: Option<CacheDisk> = Key {
            name: "disk",
            kind: Kind::Table(&DISK),
            absent: Absent::Means("memory alone"),
            help: "Disk for what memory has no room for. What it has is there again after a restart.",
            why: "",
        };
    }
}

table! {
    pub(crate) static DISK = "disk of [cache]",
        "Disk for stored responses: those that memory drops after they were used, and at the end of the process all of it.";

    /// `disk` of `[cache]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CacheDisk {
        /// Folder of the file, for this process alone.
        path: PathBuf = Key {
            name: "path",
            kind: Kind::Text(Form::File),
            absent: Absent::Required("\"/var/cache/evenkeel\""),
            help: "Folder for one file, of this process alone. Made if its parent is there.",
            why: "",
        };
        /// Size of the file in bytes.
        size: u64 = Key {
            name: "size",
            kind: Kind::Size { min: 1 << 20, max: 1 << 44, off: false },
            absent: Absent::Default("\"1GiB\""),
            help: "Size of the file, whose room is taken at the start. About 30 bytes of memory are kept for each response.",
            why: "Several times the memory, and small beside the disk of a server.",
        };
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
