//! `sources!`: the rows of all sources become [`Source`](super::Source), the keys of `discover`, and the keys of
//! `[discovery]`.

use crate::diagnostic::Findings;
use crate::sections::resolver::Resolver;
use crate::table::{Field, Kind, Section};

/// Settings of a source, which `discover` has under the source's name.
pub(crate) trait Settings: Field {
    const KIND: Kind;

    /// Returns the name, service or prefix that the source looks for, for logs and metrics.
    fn shown(&self) -> String;

    /// Takes values from `[resolver]` that `discover` does not set.
    fn start_from(&mut self, _: &Resolver, _discover: &Section) {}

    /// Reports faults of the settings. `discover`: the table that has them.
    fn check(_discover: &Section, _: &mut Findings) {}
}

/// Settings of a source that asks a server, which has a table in `[discovery]`.
pub(crate) trait Asks<S>: Settings {
    fn ask(&mut self, server: S);

    /// Reports faults of the server's table in `[discovery]`.
    fn check_server(_: &Section, _: &mut Findings) {}
}

/// Declares all sources, in the order of the docs. A row has docs, name, variant with settings, title and help; and behind
/// `asks` the server in `[discovery]`, with its help.
macro_rules! sources {
    ($(
        $(#[$doc:meta])*
        $name:ident: $variant:ident($settings:ty), $title:literal, $help:literal
            $(, asks $server:ty, $server_help:literal)? ;
    )*) => {
        /// Source of discovered endpoints. Each has the settings of its server, too.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Source { $( $(#[$doc])* $variant($settings), )* }

        impl Source {
            /// Keys of `discover` for all sources, in the order of the docs.
            pub fn keys() -> &'static [Key] {
                SOURCES.keys
            }

            /// Returns the name of the source.
            pub fn name(&self) -> &'static str {
                match self { $( Source::$variant(_) => stringify!($name), )* }
            }

            /// Returns the name of the system that is asked, as people write it.
            pub fn title(&self) -> &'static str {
                match self { $( Source::$variant(_) => $title, )* }
            }

            fn shown(&self) -> String {
                match self { $( Source::$variant(settings) => Settings::shown(settings), )* }
            }

            /// Fills in settings from other tables.
            fn start_from(&mut self, resolver: &Resolver, servers: &Servers, discover: &Section) {
                match self { $( Source::$variant(settings) => {
                    settings.start_from(resolver, discover);
                    $( Asks::<$server>::ask(settings, servers.$name.clone()); )?
                } )* }
            }

            fn check(name: &str, discover: &Section, findings: &mut Findings) {
                match name {
                    $( stringify!($name) => <$settings as Settings>::check(discover, findings), )*
                    _ => {}
                }
            }
        }

        static SOURCES: Table = Table {
            path: "discover of [pool.NAME]",
            help: "",
            inherits: false,
            keys: &[$( Key {
                name: stringify!($name),
                kind: <$settings as Settings>::KIND,
                absent: Absent::Means(concat!("no ", $title, " source")),
                help: $help,
                why: "",
            }, )*],
        };

        impl Declared for Source {
            const TABLE: &'static Table = &SOURCES;

            /// A table with none or two is reported by [`check`].
            fn of(discover: &Section) -> Source {
                $( if discover.set(stringify!($name)).is_some() {
                    return Source::$variant(Field::read(discover.value(stringify!($name))));
                } )*
                Source::Dns(Dns::unset().clone())
            }

            $crate::table::unset!(Source);

            fn lines(&self, _: &Source) -> Lines {
                let mut lines = Lines::default();
                match self {
                    $( Source::$variant(settings) => {
                        let unset = Field::read(Value::Broken);
                        lines.add(stringify!($name), settings.write(&unset, &<$settings as Settings>::KIND));
                    } )*
                }
                lines
            }
        }

        table! {
            static SERVERS = "[discovery]", "";

            /// Servers that sources ask.
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct Servers {
                $( $(
                    $name: $server = Key {
                        name: stringify!($name),
                        kind: Kind::Table(<$server as Declared>::TABLE),
                        absent: Absent::Means("its defaults"),
                        help: $server_help,
                        why: "",
                    };
                )? )*
            }
        }

        /// Reports faults of the servers.
        pub(crate) fn check_servers(discovery: &Section, findings: &mut Findings) {
            $( $( if discovery.has(stringify!($name)) {
                <$settings as Asks<$server>>::check_server(&discovery.section(stringify!($name)), findings);
            } )? )*
        }
    };
}

pub(super) use sources;
