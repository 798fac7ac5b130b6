//! Conversion of haproxy.cfg and nginx.conf: text in; a configuration of evenkeel and a [`Report`] out.
//!
//! 1. [`recognise()`]: whose configuration a text is.
//! 2. `template`: lines of templates are taken out of the text.
//! 3. `haproxy`, `nginx`: a reader and a translation each. Directives that are left out are rows of a table.
//! 4. `ledger`: every directive that was read, and its end. `report`: the two lists that come of it.
//! 5. `target`: listeners, routes and pools, the order of rules, and the text that is written.
//!
//! ```
//! use evenkeel_config::NoFiles;
//! let text = "frontend www\n  bind :80\n  default_backend app\nbackend app\n  server a 10.0.0.1:80\n";
//! let converted = evenkeel_convert::convert("haproxy.cfg", text, None, &NoFiles).expect("it is one of HAProxy");
//! assert!(converted.toml.contains("[listener.www]"), "{}", converted.toml);
//! assert_eq!(converted.report.forgotten, 0);
//! ```
#![forbid(unsafe_code)]

mod expression;
mod haproxy;
mod ledger;
mod limits;
mod nginx;
mod recognise;
mod reconcile;
mod report;
mod target;
mod template;

pub use recognise::{From, recognise};
pub use report::{CHANGES, Item, LOSSLESS, Report};

use evenkeel_config::Files;
use ledger::Ledger;
use std::collections::BTreeSet;
use std::sync::Arc;
use target::Target;

/// A converted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    pub from: From,
    /// Configuration of evenkeel, with comments where a person must look.
    pub toml: String,
    pub report: Report,
}

/// Converts a configuration that was read from the file `name`. What it includes is read from `files`, relative to the
/// folder of that file. `None` if the program is neither named nor recognised.
pub fn convert(name: &str, text: &str, from: Option<From>, files: &dyn Files) -> Option<Converted> {
    let from = from.or_else(|| recognise(text))?;
    let mut ledger = Ledger::default();
    let file: Arc<str> = name.into();
    let plain = template::strip(text, &file, &mut ledger);
    let mut target = match from {
        From::Haproxy => haproxy::translate(&plain, &file, &mut ledger),
        From::Nginx => nginx::translate(&plain, &file, files, &mut ledger),
    };
    name_apart(&mut target);
    let toml = target.to_toml(name);
    Some(Converted { from, toml, report: ledger.into_report() })
}

/// Numbers the names of routes that occur more than once, as names are unique.
fn name_apart(target: &mut Target) {
    let mut taken: BTreeSet<String> = target.listeners.iter().map(|listener| listener.name.clone()).collect();
    for route in &mut target.routes {
        let mut number = 1;
        let base = route.name.clone();
        while !taken.insert(route.name.clone()) {
            number += 1;
            route.name = format!("{base}-{number}");
        }
    }
}
