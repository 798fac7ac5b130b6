//! `[discovery]`: servers that sources of endpoints ask. See [`Discovery`]; each server is declared beside its source.

use super::pool::discover::Servers;
pub(crate) use super::pool::discover::check_servers as check;
use crate::form::{Cidr, Form};
use crate::table::{Absent, Key, Kind, table};

table! {
    pub(crate) static DISCOVERY = "[discovery]",
        "Servers that pools with `discover` ask for their endpoints.";

    /// `[discovery]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Discovery {
        servers: Servers, inline Servers;
        /// Networks in which others may use addresses of this machine and its links.
        local_networks: Vec<Cidr> = Key {
            name: "local_networks",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("none"),
            help: "Networks, such as `[\"127.0.0.0/8\"]`, in which objects of Kubernetes, and pools with \
                `refuse_local`, may use addresses of this machine and its links, or addresses that evenkeel itself \
                listens on. By default, evenkeel never forwards to such addresses. The address of `[admin]` is never \
                used as a discovered endpoint.",
            why: "A user who may write an Ingress must not reach cloud metadata at 169.254.169.254, or services that \
                trust loopback.",
        };
    }
}
