//! `client_auth` of `tls`: certificates that clients need. A listener asks for them on behalf of all of its sites.

use super::lexer::Directive;
use super::value::environment;
use crate::ledger::{Ledger, Line};
use crate::model::{Listener, Route};
use crate::protection::close;

/// Certificates that the clients of a site need.
#[derive(Clone, Debug)]
pub(super) struct ClientAuth {
    mode: Option<&'static str>,
    ca: Option<String>,
    line: Line,
}

/// Reads `client_auth` in the `tls` of a site.
pub(super) fn of(site: &Directive, ledger: &mut Ledger) -> Option<ClientAuth> {
    let tls = site.block.iter().filter(|directive| directive.name() == "tls");
    let auth = tls.flat_map(|tls| &tls.block).find(|row| row.name() == "client_auth")?;
    ledger.carried(auth.line);
    let mut found = ClientAuth { mode: Some("required"), ca: None, line: auth.line };
    let mut count = 0;
    for row in &auth.block {
        match (row.name(), row.word(1)) {
            ("mode", "request") => {
                auth.lost("certificates of clients are not asked for", "tls.client_auth of the listener", ledger);
                ledger.changes(
                    row.line,
                    "certificates of clients are not asked for",
                    "tls.client_auth of the listener",
                );
                return None;
            }
            ("mode", "verify_if_given") => found.mode = Some("optional"),
            ("mode", "require_and_verify") => {}
            ("trusted_ca_cert_file", file) => {
                count += 1;
                found.ca = Some(environment(file));
            }
            ("trust_pool", "file") => {
                let files: Vec<&String> =
                    row.from(2).iter().chain(row.block.iter().flat_map(|inner| inner.from(1))).collect();
                row.block.iter().for_each(|inner| ledger.carried(inner.line));
                count += files.len();
                found.ca = files.first().map(|file| environment(file));
            }
            _ => {
                row.lost("it is not a setting of tls.client_auth", "tls.client_auth of the listener", ledger);
                found.mode = None;
            }
        }
        if !ledger.is_settled(row.line) {
            ledger.carried(row.line);
        }
    }
    if count != 1 {
        found.ca = None;
    }
    Some(found)
}

impl ClientAuth {
    /// True if a listener can ask for them.
    pub fn is_whole(&self) -> bool {
        self.mode.is_some() && self.ca.is_some()
    }

    pub fn put(&self, listener: &mut Listener) {
        if let (Some(mode), Some(ca)) = (self.mode, &self.ca) {
            listener.set.put(key!("tls.client_auth.mode"), mode);
            listener.set.put(key!("tls.client_auth.ca"), ca.as_str());
        }
    }

    /// Closes the routes of a site whose listener cannot ask for them.
    pub fn close(&self, routes: &mut [Route], ledger: &mut Ledger) {
        routes.iter_mut().for_each(|route| close(&mut route.set));
        let reason = "certificates of clients are asked for by a listener with a single file of authorities, for all of \
                      its sites: all clients are refused";
        ledger.decide(self.line, reason, "tls.client_auth of a listener for this site alone, or access of its routes");
    }
}
