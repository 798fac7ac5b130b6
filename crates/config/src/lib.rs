//! Configuration of evenkeel: text in; a [`Plan`], or every error with its place, out.
//!
//! Reading does not stop at the first error, does not panic on any text, and has no hidden inputs: files come
//! from [`Files`], environment variables from a closure, and facts about the machine from [`Machine`]. Read
//! the modules in this order:
//!
//! 1. [`plan`]: the result, as plain typed values.
//! 2. `sections`: every key, a subject per file. A declaration yields the struct of the plan, the reader, the writer,
//!    the [`schema()`] and the [`reference()`].
//! 3. `table`: the machinery behind those declarations. `form` and `quantity` parse strings.
//! 4. `load`: the way from files to a plan, which `root` builds; `load/files`, `tree` and `load/env` are its first
//!    steps, `machine` is consulted at its end. `builder`: the same for a plan made from values instead of a text. [`draft`]: a
//!    file made from keys, for a person to complete.
//! 5. `checks`: references and colliding routes, that is, checks over several tables.
//! 6. `diagnostic`, `code`, [`render_text`]: errors and their output; `masked` removes secrets. `nearest` and `foreign`
//!    suggest the intended word.
//! 7. `list`: files that list endpoints. [`entry`]: values of endpoints that others name.
//! 8. [`tables`]: other files, read with separate tables.
//! 9. [`changes()`]: differences between two plans.
//! 10. [`planes`]: the parts of algorithms and settings that planes keep.
//! 11. `maps`: tables of maps, as requests use them.
//! 12. [`printable`]: characters that logs and terminals must not get unescaped.
//!
//! ```
//! let text = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nbalance = 'rondom'\nendpoints = ['127.0.0.1:8081']";
//! let outcome = evenkeel_config::parse_str("evenkeel.toml", text, &|_| None);
//! assert!(outcome.plan.is_none());
//! let shown = evenkeel_config::render_text(&outcome.diagnostics, false);
//! assert!(shown.starts_with("error[EK0102]: unknown algorithm \"rondom\"\n  --> evenkeel.toml:4:11\n"), "{shown}");
//! assert!(shown.contains("help: did you mean \"random\"?"));
//! ```
#![forbid(unsafe_code)]

// Order: builder, draft, changes, list, load, render, tables, reference, schema, root, checks, planes, machine, plan,
// sections, maps, table, foreign, form, nearest, printable, quantity, tree, diagnostic, code, secret, source, subject,
// wildcard, entry
mod builder;
mod changes;
mod checks;
mod code;
mod diagnostic;
pub mod draft;
pub mod entry;
mod foreign;
mod form;
mod list;
mod load;
mod machine;
mod maps;
mod nearest;
pub mod plan;
pub mod planes;
pub mod printable;
mod quantity;
mod reference;
mod render;
mod root;
mod schema;
mod secret;
mod sections;
mod source;
mod subject;
mod table;
pub mod tables;
mod tree;
pub mod wildcard;

pub use builder::Builder;
pub use changes::changes;
pub use code::{Code, Severity};
pub use diagnostic::{Diagnostic, Range, Spot};
pub use form::{NETWORK_LIST_MAX, USER_LIST_MAX, network_list, user_list};
pub use list::{endpoint_list, endpoints_from_toml, endpoints_to_toml};
pub use load::env::Env;
pub use load::files::{Disk, Files, NoFiles};
pub use load::places::places;
pub use load::{Outcome, check, check_from, load, load_from, parse_str, planes_from};
pub use machine::{CertificateFault, Certified, Found, Machine, NoPlane, TlsFile, is_own};
pub use maps::{MAP_FILE_MAX, MapFault, MapFaults, MapMatch, MapRow, MapTable, file_rows};
pub use nearest::nearest;
pub use plan::Plan;
pub use reference::{algorithm_reference, algorithms_reference, reference, reference_pages};
pub use render::{render_text, to_json};
pub use schema::schema;
pub use source::Position;
pub use subject::Subject;
