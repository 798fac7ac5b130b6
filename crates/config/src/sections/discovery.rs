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
        /// Networks in which others may name addresses of this machine and its links.
        local_networks: Vec<Cidr> = Key {
            name: "local_networks",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("none"),
            help: "Networks, such as `[\"127.0.0.0/8\"]`, in which objects of Kubernetes, and pools with `refuse_local`, may name \
                addresses of this machine and its links, or addresses that evenkeel itself listens on. Without that, \
                evenkeel sends nothing there. The address of `[admin]` is never an endpoint that a source finds.",
            why: "Who may write an Ingress must not read the metadata of a cloud at 169.254.169.254, or what trusts loopback.",
        };
    }
}
