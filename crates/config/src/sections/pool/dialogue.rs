//! Health checks that speak a protocol other than HTTP and close the session properly: `health.tcp`, `mysql`,
//! `postgres`, `redis` and `smtp` of a pool.

use crate::form::Form;
use crate::table::{Absent, Key, Kind, Payload, Table, table};

table! {
    pub(super) static TCP = "health.tcp of [pool.NAME]",
        "A TCP connection, with an optional exchange. Without any key, the check only opens the connection. Many \
        servers log that as a failed client.";

    /// Keys of [`Check::Tcp`](super::health::Check::Tcp).
    #[derive(Clone, PartialEq)]
    pub(super) struct TcpCheck {
        /// Bytes to send after the connection is open.
        send: Option<Payload> = Key {
            name: "send",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Means("nothing"),
            help: "Bytes to send.",
            why: "",
        };
        /// Bytes that the answer must contain.
        expect: Option<Payload> = Key {
            name: "expect",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Means("nothing"),
            help: "Bytes that the answer must contain, within its first 64 KiB.",
            why: "",
        };
        /// Bytes to send before closing.
        quit: Option<Payload> = Key {
            name: "quit",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Means("nothing"),
            help: "Bytes to send before the connection is closed, such as `\"QUIT\\r\\n\"`.",
            why: "",
        };
    }
}

table! {
    pub(super) static MYSQL = "health.mysql of [pool.NAME]",
        "A login to MySQL or MariaDB. A check that closes after the greeting would count as a connection error, and \
        the server blocks a host after `max_connect_errors` such errors.";

    /// Keys of [`Check::Mysql`](super::health::Check::Mysql).
    #[derive(Clone, PartialEq)]
    pub(super) struct MysqlCheck {
        /// User to log in as, without a password.
        user: Option<String> = Key {
            name: "user",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("`evenkeel`, and a denied login passes too"),
            help: "User to log in as, without a password. The login must succeed.",
            why: "",
        };
    }
}

table! {
    pub(super) static POSTGRES = "health.postgres of [pool.NAME]",
        "The start of a PostgreSQL session. Passes if the server asks for a password or is ready for queries.";

    /// Keys of [`Check::Postgres`](super::health::Check::Postgres).
    #[derive(Clone, PartialEq)]
    pub(super) struct PostgresCheck {
        /// Role that starts the session.
        user: Option<String> = Key {
            name: "user",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("`evenkeel`, and an unknown or denied role or database passes too"),
            help: "Role that starts the session. The server must not reject it.",
            why: "",
        };
        database: String = Key {
            name: "database",
            kind: Kind::Text(Form::Label),
            absent: Absent::Default("\"postgres\""),
            help: "Database of the session.",
            why: "Every cluster has a database of this name.",
        };
    }
}

pub(super) static REDIS: Table = Table {
    path: "health.redis of [pool.NAME]",
    help: "`PING` to Redis or Valkey. Passes on `PONG`, or if the server requires a password first. Has no keys.",
    inherits: false,
    keys: &[],
};

pub(super) static SMTP: Table = Table {
    path: "health.smtp of [pool.NAME]",
    help: "Greeting, `EHLO` and `QUIT` with a mail server. Has no keys.",
    inherits: false,
    keys: &[],
};
