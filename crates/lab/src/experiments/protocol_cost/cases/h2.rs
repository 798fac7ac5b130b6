//! Cases of `h2-cost`: HTTP/2 and gRPC.

use super::case::{Case, USUAL, Work, best, both, caches, haproxy};
use crate::balancers::{Back, Front};
use crate::load::h2load::Streams;
use crate::study::grid::Bound;

/// Path of the gRPC method under load.
pub const METHOD: &str = "/lab.Echo/Say";

const MANY_STREAMS: Case = Case {
    name: "h2c-16x32",
    about: "1 kB, 16 connections with 32 streams each (h2load), HTTP/2 without TLS",
    front: Front::H2c,
    work: Work::Streams(Streams { clients: 16, streams: 32 }),
    bounds: &[haproxy(0.85, "16 x 32 streams, 1 kB: evenkeel's CPU time per request is at most 0.85 of HAProxy's")],
    ..USUAL
};

/// Cases in the order in which they run.
pub static CASES: &[Case] = &[
    MANY_STREAMS,
    Case {
        name: "h2c-64x1",
        about: "1 kB, 64 connections with one stream each (h2load), HTTP/2 without TLS",
        work: Work::Streams(Streams { clients: 64, streams: 1 }),
        bounds: &[haproxy(0.85, "64 x 1 streams, 1 kB: evenkeel's CPU time per request is at most 0.85 of HAProxy's")],
        ..MANY_STREAMS
    },
    Case {
        name: "h2c-64k",
        about: "64 kB, 8 connections with 8 streams each (h2load), HTTP/2 without TLS",
        work: Work::Streams(Streams { clients: 8, streams: 8 }),
        path: "/64k",
        bounds: &[best(0.8, "64 kB: evenkeel's CPU time per request is at most 0.8 of the best of the others")],
        ..MANY_STREAMS
    },
    Case {
        name: "h2c-cached-1k",
        about: "as h2c-16x32, from the cache",
        cached: true,
        bounds: &[caches(
            0.7,
            "From the cache, 1 kB: evenkeel's CPU time is at most 0.7 of the better of NGINX and Varnish",
        )],
        ..MANY_STREAMS
    },
    Case {
        name: "h2c-cached-64k",
        about: "64 kB from the cache, 8 connections with 8 streams each (h2load), HTTP/2 without TLS",
        work: Work::Streams(Streams { clients: 8, streams: 8 }),
        path: "/64k",
        cached: true,
        bounds: &[caches(
            0.7,
            "From the cache, 64 kB: evenkeel's CPU time is at most 0.7 of the better of NGINX and Varnish",
        )],
        ..MANY_STREAMS
    },
    Case {
        name: "h2c-cached-1m",
        about: "1 MB from the cache, 4 connections with 4 streams each (h2load), HTTP/2 without TLS",
        work: Work::Streams(Streams { clients: 4, streams: 4 }),
        path: "/1m",
        cached: true,
        bounds: &[caches(
            0.7,
            "From the cache, 1 MB: evenkeel's CPU time is at most 0.7 of the better of NGINX and Varnish",
        )],
        ..MANY_STREAMS
    },
    Case {
        name: "h2-tls-16x32",
        about: "as h2c-16x32, over TLS 1.3",
        front: Front::H2,
        bounds: &[best(
            1.0,
            "16 x 32 streams over TLS: evenkeel's CPU time per request is at most that of the best of the others",
        )],
        ..MANY_STREAMS
    },
    Case {
        name: "grpc-unary",
        about: "gRPC, messages of 100 bytes both ways, 16 connections with 32 calls each (h2load), without TLS",
        back: Back::Grpc,
        path: METHOD,
        bounds: &[Bound::new("gRPC: evenkeel's CPU time per call is at most 0.35 of Envoy's", &["envoy"], 0.35)],
        ..MANY_STREAMS
    },
    Case {
        name: "h2-to-h2",
        about: "as h2c-16x32, with endpoints that speak HTTP/2 too",
        back: Back::H2c,
        bounds: &[best(
            1.0,
            "HTTP/2 on both sides: evenkeel's CPU time per request is at most that of the best of the others",
        )],
        ..MANY_STREAMS
    },
    Case {
        name: "idle-h2",
        about: "2,000 connections of HTTP/2 without TLS that asked for 1 kB once; resident memory beside that before the first",
        work: Work::Idle(2000),
        bounds: &[both(
            1.0,
            "An idle connection of HTTP/2 takes at most the memory that the less of HAProxy's and NGINX's takes",
        )],
        ..MANY_STREAMS
    },
];
