//! Where do endpoints come from that the file does not list? [`Discover`], and how names are resolved: [`Resolver`].

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is made of the addresses of an endpoint that is given as a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolve {
    /// One endpoint, at one of them: the one it has while the name has that, or else the first.
    #[default]
    First,
    /// An endpoint for each.
    All,
}

/// `discover` of a pool: endpoints beside those that the file lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discover {
    /// Where they are looked for.
    pub source: Source,
    /// Whether a list without endpoints counts; if not, the last one that had some is kept.
    pub allow_empty: bool,
}

/// Where endpoints are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The records of a name.
    Dns(Dns),
    /// A file that lists them.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Dns(Dns { name, records: Records::Srv, .. }) => write!(f, "dns:{name}"),
            Source::Dns(Dns { name, port, .. }) => write!(f, "dns:{name}:{port}"),
            Source::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// Which records of which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// Lower case, without a final dot.
    pub name: String,
    /// The records.
    pub records: Records,
    /// Where endpoints listen; 0 if, and only if, the records say it themselves.
    pub port: u16,
    /// An answer is used for at least so long, whatever it says.
    pub min_ttl: Duration,
}

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// `A`, and `AAAA` if there are none.
    Addresses,
    /// `A`.
    A,
    /// `AAAA`.
    Aaaa,
    /// `SRV`, and the addresses of their targets.
    Srv,
}

/// `[resolver]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Who is asked, in this order; empty: whom `/etc/resolv.conf` names.
    pub nameservers: Vec<SocketAddr>,
    /// Whether names are also looked for in the domains that `/etc/resolv.conf` lists.
    pub search: bool,
    /// For names that say nothing else: an answer is used for at least so long.
    pub min_ttl: Duration,
    /// An answer is used for at most so long; never below a `min_ttl`.
    pub max_ttl: Duration,
}
