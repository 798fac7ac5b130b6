//! Cases of `h3-cost`: HTTP/3.

use super::case::{Case, Count, USUAL, Work, best, both};
use crate::balancers::Front;
use crate::load::http3::Http3;

const fn streams(clients: u32, streams: u32) -> Work {
    Work::Http3(Http3 { clients, streams, reconnects: false })
}

const MANY_STREAMS: Case = Case {
    name: "h3-16x32",
    about: "1 kB, 16 connections with 32 streams each, HTTP/3",
    front: Front::H3,
    work: streams(16, 32),
    bounds: &[best(
        0.85,
        "16 x 32 streams, 1 kB: evenkeel's CPU time per request is at most 0.85 of the best of the others",
    )],
    ..USUAL
};

const ONE_STREAM: Case = Case {
    name: "h3-64x1",
    about: "1 kB, 64 connections with one stream each, HTTP/3",
    work: streams(64, 1),
    bounds: &[best(
        0.85,
        "64 x 1 streams, 1 kB: evenkeel's CPU time per request is at most 0.85 of the best of the others",
    )],
    ..MANY_STREAMS
};

const MIDDLE: Case = Case {
    name: "h3-64k",
    about: "64 kB, 8 connections with 8 streams each, HTTP/3",
    work: streams(8, 8),
    path: "/64k",
    bounds: &[best(0.7, "64 kB: evenkeel's CPU time per request is at most 0.7 of the best of the others")],
    ..MANY_STREAMS
};

const LARGE: Case = Case {
    name: "h3-1m",
    about: "1 MB, 4 connections with one stream each, HTTP/3",
    work: streams(4, 1),
    path: "/1m",
    bounds: &[best(0.7, "1 MB: evenkeel's CPU time per request is at most 0.7 of the best of the others")],
    ..MANY_STREAMS
};

const CONNECTION_EACH: Case = Case {
    name: "h3-connections",
    about: "a full handshake of HTTP/3 with a P-256 certificate, 1 kB, close; 32 clients",
    work: Work::Http3(Http3 { clients: 32, streams: 1, reconnects: true }),
    bounds: &[best(
        0.85,
        "A connection for each request: evenkeel's CPU time is at most 0.85 of the best of the others",
    )],
    ..MANY_STREAMS
};

/// Cases in the order in which they run.
pub static CASES: &[Case] = &[
    MANY_STREAMS,
    ONE_STREAM,
    MIDDLE,
    LARGE,
    CONNECTION_EACH,
    Case {
        name: "idle-h3",
        about: "10,000 connections of HTTP/3 that asked for 1 kB once; resident memory beside that before the first",
        work: Work::Idle(10_000),
        bounds: &[both(
            1.0,
            "An idle connection of HTTP/3 takes at most the memory that the less of HAProxy's and NGINX's takes",
        )],
        ..MANY_STREAMS
    },
    Case {
        name: "h3-16x32-syscalls",
        about: "as h3-16x32, under strace -c",
        count: Count::Syscalls,
        bounds: &[],
        ..MANY_STREAMS
    },
    Case {
        name: "h3-64x1-syscalls",
        about: "as h3-64x1, under strace -c",
        count: Count::Syscalls,
        bounds: &[],
        ..ONE_STREAM
    },
    Case {
        name: "h3-64k-syscalls",
        about: "as h3-64k, under strace -c",
        count: Count::Syscalls,
        bounds: &[],
        ..MIDDLE
    },
    Case { name: "h3-1m-syscalls", about: "as h3-1m, under strace -c", count: Count::Syscalls, bounds: &[], ..LARGE },
    Case {
        name: "h3-connections-syscalls",
        about: "as h3-connections, under strace -c",
        count: Count::Syscalls,
        bounds: &[],
        ..CONNECTION_EACH
    },
];
