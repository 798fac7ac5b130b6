//! Checks that take part in a protocol besides HTTP and say goodbye in it, `health.tcp`, `mysql`, `postgres`, `redis` and
//! `smtp` of a pool.

use crate::form::Form;
use crate::table::{Absent, Key, Kind, Payload, Table, table};

table! {
    pub(super) static TCP = "health.tcp of [pool.NAME]",
        "A connection, and what is said on it. Without a key the connection is the whole check; many servers count that as \
        a client that failed.";

    /// [`Check::Tcp`](super::health::Check::Tcp).
    #[derive(PartialEq)]
    pub(super) struct TcpCheck {
        /// What is sent.
        send: Option<Payload> = Key {
            name: "send",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Means("nothing"),
            help: "What is sent.",
            why: "",
        };
        /// What the answer must contain.
        expect: Option<Payload> = Key {
            name: "expect",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Means("the connection is enough"),
            help: "What must come, within the first 64 KiB.",
            why: "",
        };
        /// What is sent at the end.
        quit: Option<Payload> = Key {
            name: "quit",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Means("the connection is closed"),
            help: "What is sent at the end, as `\"QUIT\\r\\n\"`.",
            why: "",
        };
    }
}

table! {
    pub(super) static MYSQL = "health.mysql of [pool.NAME]",
        "A login at MySQL or MariaDB. A check that closes after the greeting would count as an error of its host, which the \
        server locks out after `max_connect_errors`.";

    /// [`Check::Mysql`](super::health::Check::Mysql).
    #[derive(PartialEq)]
    pub(super) struct MysqlCheck {
        /// Who logs in.
        user: Option<String> = Key {
            name: "user",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the user `evenkeel`; a denied login passes too"),
            help: "The user that logs in without a password, and must be let in.",
            why: "",
        };
    }
}

table! {
    pub(super) static POSTGRES = "health.postgres of [pool.NAME]",
        "The start of a session at PostgreSQL. Passed if the server asks for a password or is ready.";

    /// [`Check::Postgres`](super::health::Check::Postgres).
    #[derive(PartialEq)]
    pub(super) struct PostgresCheck {
        /// Who starts a session.
        user: Option<String> = Key {
            name: "user",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the role `evenkeel`; a role or database that is unknown or denied passes too"),
            help: "The role that starts a session, and must not be refused.",
            why: "",
        };
        /// In which database.
        database: String = Key {
            name: "database",
            kind: Kind::Text(Form::Label),
            absent: Absent::Default("\"postgres\""),
            help: "The database of the session.",
            why: "Every cluster has it.",
        };
    }
}

pub(super) static REDIS: Table = Table {
    path: "health.redis of [pool.NAME]",
    help: "`PING` at Redis or Valkey: passed by `PONG`, or if the server asks for a password first. There is nothing to set.",
    inherits: false,
    keys: &[],
};

pub(super) static SMTP: Table = Table {
    path: "health.smtp of [pool.NAME]",
    help: "Greeting, `EHLO` and `QUIT` at a mail server. There is nothing to set.",
    inherits: false,
    keys: &[],
};
