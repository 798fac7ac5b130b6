//! The keys of `sticky` of `[pool.NAME]`.

use super::{Absent, DAY, Key, Kind, S, Table};
use crate::form::Form;

pub(super) static STICKY: Table = Table {
    path: "sticky of [pool.NAME]",
    help: "A client meets its endpoint again, by a signed cookie, as long as that endpoint may be used. Exactly one of \
           `secret` and `secret_file` is needed.",
    inherits: false,
    keys: &[
        Key {
            name: "cookie",
            kind: Kind::Text(Form::Token),
            absent: Absent::Default("\"evenkeel\""),
            help: "Name of the cookie.",
            why: "Nobody else's.",
        },
        Key {
            name: "secret",
            kind: Kind::Text(Form::Secret),
            absent: Absent::Means("that of `secret_file`"),
            help: "The key that cookies are signed with, 16 bytes or more, the same on every instance: as \
                   `\"${STICKY_SECRET}\"`. It is never shown.",
            why: "",
        },
        Key {
            name: "secret_file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("that of `secret`"),
            help: "A file whose content is the key, without white space at its end.",
            why: "",
        },
        Key {
            name: "ttl",
            kind: Kind::Duration { min: S, max: 400 * DAY, off: true },
            absent: Absent::Default("\"off\""),
            help: "How long it holds. `\"off\"`: until the browser ends.",
            why: "Nothing stays on the disk of a client.",
        },
        Key {
            name: "path",
            kind: Kind::Text(Form::CookiePath),
            absent: Absent::Default("\"/\""),
            help: "Its `Path`: below it clients send it.",
            why: "Every path of the site.",
        },
        Key {
            name: "secure",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether clients send it over TLS only. Turn it on where clients come by TLS.",
            why: "Listeners speak plain HTTP: with it a client that came that way would never send it back.",
        },
        Key {
            name: "same_site",
            kind: Kind::Choice(&["lax", "strict", "none"]),
            absent: Absent::Default("\"lax\""),
            help: "With which requests from other sites clients send it. `none` needs `secure`.",
            why: "What browsers take when nothing is said.",
        },
    ],
};
