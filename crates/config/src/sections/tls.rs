//! Where is TLS spoken, and who must show what? [`ListenerTls`], `tls` of a listener; [`PoolTls`], `tls` of a pool.

use crate::form::Form;
use crate::table::{Absent, DAY, H, Key, Kind, MS, table, words};
use std::path::PathBuf;
use std::time::Duration;

table! {
    pub(crate) static CERTIFICATE = "entry of certificates",
        "A certificate and its key, both in PEM. They are read at the start and again at each reload.";

    /// A certificate and its key.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Certificate {
        /// The certificate, and those that vouch for it.
        cert: PathBuf = Key {
            name: "cert",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/etc/evenkeel/example.com.pem""#),
            help: "The file of the certificate, followed by those of the authorities in between.",
            why: "",
        };
        /// Its key.
        key: PathBuf = Key {
            name: "key",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/etc/evenkeel/example.com.key""#),
            help: "The file of its key.",
            why: "",
        };
    }
}

table! {
    pub(crate) static LISTENER_TLS = "tls of [listener.NAME]",
        "Speaks TLS with clients. With `mode = \"tcp\"` it ends here, and the endpoint gets what was inside.";

    /// `tls` of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListenerTls {
        /// At least one. A client gets the first that is for the name that it asks for, or else the first of all.
        certificates: Vec<Certificate> = Key {
            name: "certificates",
            kind: Kind::Tables(&CERTIFICATE),
            absent: Absent::Required(r#"[{ cert = "/etc/evenkeel/example.com.pem", key = "/etc/evenkeel/example.com.key" }]"#),
            help: "The certificates. A client gets the first that is for the name that it asks for, or else the first of all.",
            why: "",
        };
        /// The oldest version that is spoken.
        min_version: TlsVersion = Key {
            name: "min_version",
            kind: Kind::Choice(TlsVersion::WORDS),
            absent: Absent::Default("\"1.2\""),
            help: "The oldest version that is spoken; the newest is 1.3.",
            why: "What every client of the last ten years speaks, and what browsers ask for.",
        };
        /// Who issues the certificates of clients; `None` = they need none.
        client_ca: Option<PathBuf> = Key {
            name: "client_ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("clients need no certificate"),
            help: "A file with the authorities (PEM) that issue the certificates of clients, which then need one.",
            why: "",
        };
        /// For how long browsers come by TLS alone; `None` = they are not told to.
        hsts: Option<Duration> = Key {
            name: "hsts",
            kind: Kind::Duration { min: 1_000 * MS, max: 1_000 * DAY, off: true },
            absent: Absent::Default("\"off\""),
            help: "Tells browsers to come by TLS alone for so long (`Strict-Transport-Security`), as `\"365d\"`. `\"off\"`: they are \
                   not told.",
            why: "It cannot be taken back before its time is over.",
        };
        /// How long a handshake may take.
        handshake_timeout: Duration = Key {
            name: "handshake_timeout",
            kind: Kind::Duration { min: 50 * MS, max: H, off: false },
            absent: Absent::Default("\"10s\""),
            help: "How long a handshake may take, from the accept to its end.",
            why: "Two round trips and a slow phone; NGINX gives a minute.",
        };
        /// Handshakes under way at one worker.
        handshakes: usize = Key {
            name: "handshakes",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("2_000"),
            help: "Handshakes that may be under way at one worker. Clients beyond that are closed.",
            why: "Each holds some 10 KiB; at 200 microseconds each, so many take longer than a client waits.",
        };
    }
}

table! {
    pub(crate) static POOL_TLS = "tls of [pool.NAME]",
        "Speaks TLS with endpoints, which have to prove who they are. Health checks at the same port do too.";

    /// `tls` of a pool.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct PoolTls {
        /// Whose certificates are believed; `None` = those that the system trusts.
        ca: Option<PathBuf> = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("the authorities that the system trusts"),
            help: "A file with the authorities (PEM) that issue the certificates of endpoints.",
            why: "",
        };
        /// What all endpoints are called; `None` = each by its own host.
        server_name: Option<String> = Key {
            name: "server_name",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the host of each endpoint"),
            help: "The name that endpoints are asked for, and that their certificates must be for.",
            why: "",
        };
        /// The certificate that is shown to endpoints.
        certificate: Option<Certificate> = Key {
            name: "certificate",
            kind: Kind::Table(&CERTIFICATE),
            absent: Absent::Means("none"),
            help: "The certificate that is shown to endpoints that ask for one.",
            why: "",
        };
    }
}

words! {
    /// A version of TLS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum TlsVersion {
        /// 1.2 and newer.
        #[default]
        V12 = "1.2",
        /// 1.3 alone.
        V13 = "1.3",
    }
}
