//! Interoperability of the HTTP/2 engine with the `h2` crate, on either side: bodies of any size in both directions,
//! trailers, resets, small windows and tables, and reads that end anywhere.

use crate::h2::{End, Side, Stop, Stream, run};
use ::h2::Reason;
use ::h2::client::SendRequest;
use bytes::Bytes;
use evenkeel_wire::h2::{Config, Connection, ErrorCode, NoStream};
use http::{HeaderMap, Request, Response};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::task::spawn_local;

/// The end of each message in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Plain,
    Trailers,
    /// The client resets its request after the body.
    ResetByClient,
    /// The server resets the response instead of ending it.
    ResetByServer,
}

#[derive(Clone, Debug)]
struct Exchange {
    len: usize,
    ends: Ends,
    /// True if the length is stated.
    stated: bool,
    /// Length of a field's value, so that blocks have all sizes.
    field: usize,
}

/// Limits of the peer, and the sizes of reads.
#[derive(Clone, Debug)]
struct Terms {
    window: u32,
    connection_window: u32,
    max_frame: u32,
    table: u32,
    max_streams: u32,
    ours: Config,
    pipe: usize,
    cuts: Vec<usize>,
}

fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let ends = prop_oneof![
        4 => Just(Ends::Plain),
        2 => Just(Ends::Trailers),
        1 => Just(Ends::ResetByClient),
        1 => Just(Ends::ResetByServer),
    ];
    let len = prop_oneof![Just(0usize), 1usize..200, 1usize..30_000];
    let field = prop_oneof![4 => 0usize..100, 1 => 0usize..20_000];
    vec((len, ends, any::<bool>(), field), 1..16).prop_map(|all| {
        all.into_iter().map(|(len, ends, stated, field)| Exchange { len, ends, stated, field }).collect()
    })
}

fn terms() -> impl Strategy<Value = Terms> {
    let window = || prop_oneof![1 => 20u32..200, 4 => 1000u32..300_000];
    (
        (window(), 65_535u32..300_000, 16_384u32..100_000, 0u32..8192, 1u32..12),
        (window(), 65_535u32..300_000, 0usize..8192),
        prop_oneof![1 => 20usize..100, 4 => 1000usize..100_000],
        vec(prop_oneof![1usize..40, 1usize..40_000, 1usize..40_000], 1..20),
    )
        .prop_map(|(theirs, ours, pipe, cuts)| Terms {
            window: theirs.0,
            connection_window: theirs.1,
            max_frame: theirs.2,
            table: theirs.3,
            max_streams: theirs.4,
            ours: Config {
                stream_window: ours.0,
                connection_window: ours.1,
                header_table: ours.2,
                max_header_list: 32 << 10,
                ..Config::default()
            },
            pipe,
            cuts,
        })
}

/// Returns a body that shows which part of it is missing.
fn body(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + i / 251 + seed * 7) % 256) as u8).collect()
}

fn trailers() -> HeaderMap {
    [("x-sum".parse().expect("a name"), "7".parse().expect("a value"))].into_iter().collect()
}

const TRAILERS: &[(&str, &str)] = &[("x-sum", "7")];

async fn all_of(mut body: ::h2::RecvStream) -> Result<(Vec<u8>, Option<HeaderMap>), ::h2::Error> {
    let mut got = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        got.extend_from_slice(&part);
    }
    Ok((got, body.trailers().await?))
}

/// Makes one request with the h2 crate. The response must contain what the request did.
async fn ask(client: SendRequest<Bytes>, exchange: Exchange, seed: usize) {
    let mut client = client.ready().await.expect("the connection is open");
    let sent = body(exchange.len, seed);
    let mut request = Request::post("http://a/b").header("x-field", "~".repeat(exchange.field));
    if exchange.stated {
        request = request.header("content-length", exchange.len);
    }
    if exchange.ends == Ends::ResetByServer {
        request = request.header("x-reset", "1");
    }
    let (response, mut out) = client.send_request(request.body(()).expect("a request"), false).expect("it may");
    out.send_data(Bytes::from(sent.clone()), exchange.ends == Ends::Plain || exchange.ends == Ends::ResetByServer)
        .expect("it may");
    match exchange.ends {
        Ends::Trailers => out.send_trailers(trailers()).expect("it may"),
        Ends::ResetByClient => out.send_reset(Reason::CANCEL),
        _ => {}
    }
    let response = match response.await {
        Ok(response) => response,
        Err(_) if exchange.ends == Ends::ResetByClient => return,
        Err(error) => panic!("{error}"),
    };
    let (parts, response) = response.into_parts();
    assert_eq!((parts.status.as_u16(), parts.headers["x-field"].len()), (200, exchange.field));
    match (all_of(response).await, exchange.ends) {
        (Err(_), Ends::ResetByClient) => {}
        (Err(error), Ends::ResetByServer) => assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR)),
        (Ok((got, trailers_)), ends) => {
            assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
            assert!(matches!(ends, Ends::Plain | Ends::Trailers), "{ends:?}");
            assert_eq!(trailers_, (ends == Ends::Trailers).then(trailers));
        }
        (Err(error), _) => panic!("{error}"),
    }
}

/// Runs a server on the engine, which answers each request with its content as it arrives.
async fn echo(mut side: Side) -> Stop {
    loop {
        if let Err(stop) = side.step().await {
            return stop;
        }
        for (&id, stream) in &mut side.streams {
            if let Some(head) = stream.head.take()
                && stream.reset.is_none()
            {
                let of = |name: &str| head.fields.iter().find(|(n, _)| *n == name.as_bytes()).map(|(_, v)| v.to_vec());
                let field = of("x-field").unwrap_or_default();
                let fields: [(&[u8], &[u8]); 2] = [(b":status", b"200"), (b"x-field", &field)];
                side.engine.send_head(id, fields.into_iter(), false);
                if of("x-reset").is_some() {
                    stream.end = Some(End::Reset(ErrorCode::InternalError));
                }
            }
            let came = std::mem::take(&mut stream.received);
            stream.to_send.extend_from_slice(&came);
            if std::mem::take(&mut stream.ended) && stream.end.is_none() {
                stream.end = Some(if stream.trailers.is_some() { End::Trailers(TRAILERS) } else { End::Plain });
            }
        }
    }
}

/// Answers a request in the same way with the h2 crate, once it is complete.
async fn answer(request: Request<::h2::RecvStream>, mut respond: ::h2::server::SendResponse<Bytes>) {
    let (parts, came) = request.into_parts();
    let Ok((body, trailers)) = all_of(came).await else { return };
    let response = Response::builder().header("x-field", &parts.headers["x-field"]);
    let Ok(mut out) = respond.send_response(response.body(()).expect("a response"), false) else { return };
    let is_reset = parts.headers.contains_key("x-reset");
    let _ = out.send_data(body.into(), trailers.is_none() && !is_reset);
    if is_reset {
        out.send_reset(Reason::INTERNAL_ERROR);
    } else if let Some(trailers) = trailers {
        let _ = out.send_trailers(trailers);
    }
}

async fn our_server(terms: Terms, exchanges: Vec<Exchange>) {
    let (ours, theirs) = tokio::io::duplex(terms.pipe);
    let side = Side::new(Connection::server(terms.ours, 0), ours, terms.cuts);
    let server = spawn_local(echo(side));
    let (client, connection) = ::h2::client::Builder::new()
        // A body that arrives in crumbs is returned in crumbs.
        .data_frame_budget(usize::MAX)
        .initial_window_size(terms.window)
        .initial_connection_window_size(terms.connection_window)
        .max_frame_size(terms.max_frame)
        .header_table_size(terms.table)
        .max_header_list_size(64 << 10)
        .handshake(theirs)
        .await
        .expect("they shake hands");
    let connection = spawn_local(connection);
    let tasks: Vec<_> =
        exchanges.into_iter().enumerate().map(|(seed, one)| spawn_local(ask(client.clone(), one, seed))).collect();
    drop(client);
    for task in tasks {
        task.await.expect("it gets its response");
    }
    // Without streams and clients, the other side sends a GOAWAY and closes.
    connection.await.expect("no panic").expect("no error");
    if let Stop::Failed(error) = server.await.expect("no panic") {
        panic!("the engine refuses what the h2 crate sends: {error}");
    }
}

async fn our_client(terms: Terms, exchanges: Vec<Exchange>) {
    let (ours, theirs) = tokio::io::duplex(terms.pipe);
    let mut side = Side::new(Connection::client(terms.ours, 0), ours, terms.cuts);
    let server = spawn_local(async move {
        let mut connection = ::h2::server::Builder::new()
            .initial_window_size(terms.window)
            .initial_connection_window_size(terms.connection_window)
            .max_frame_size(terms.max_frame)
            .header_table_size(terms.table)
            .max_header_list_size(64 << 10)
            .max_concurrent_streams(terms.max_streams)
            .handshake::<_, Bytes>(theirs)
            .await
            .expect("they shake hands");
        while let Some(request) = connection.accept().await {
            let (request, respond) = request.expect("no error");
            spawn_local(answer(request, respond));
        }
    });
    // A client that opens no more streams than the server accepts has to know their number.
    while side.engine.peer_max_streams() == u32::MAX {
        side.step().await.expect("it goes on");
    }
    let mut left = exchanges.iter().enumerate();
    let mut next = left.next();
    let mut open = Vec::new();
    loop {
        while let Some((seed, one)) = next {
            let (length, field) = (one.len.to_string(), "~".repeat(one.field));
            let mut fields = vec![(":method", "POST"), (":scheme", "http"), (":path", "/b"), (":authority", "a")];
            fields.push(("x-field", &field));
            if one.stated {
                fields.push(("content-length", &length));
            }
            if one.ends == Ends::ResetByServer {
                fields.push(("x-reset", "1"));
            }
            let end = match one.ends {
                Ends::Trailers => End::Trailers(TRAILERS),
                Ends::ResetByClient => End::Reset(ErrorCode::Cancel),
                Ends::Plain | Ends::ResetByServer => End::Plain,
            };
            let stream = Stream { to_send: body(one.len, seed), end: Some(end), ..Stream::default() };
            match side.open(&fields, stream) {
                Ok(id) => open.push((id, seed, one)),
                Err(why) => {
                    assert_eq!(why, NoStream::Full);
                    assert_eq!(side.engine.open_streams(), terms.max_streams as usize);
                    break;
                }
            }
            next = left.next();
        }
        let is_over = |id| side.streams.get(id).is_none_or(|stream: &Stream| stream.ended || stream.reset.is_some());
        if next.is_none() && open.iter().all(|(id, ..)| is_over(id)) {
            break;
        }
        side.step().await.expect("it goes on");
    }
    for (id, seed, one) in open {
        let stream = &side.streams[&id];
        match one.ends {
            Ends::ResetByClient => assert!(!stream.ended),
            Ends::ResetByServer => assert_eq!(stream.reset, Some(ErrorCode::InternalError as u32)),
            Ends::Plain | Ends::Trailers => {
                assert_eq!(stream.head.as_ref().map(|head| head.status), Some(200));
                assert!(stream.received == body(one.len, seed), "{} of {} bytes", stream.received.len(), one.len);
                assert_eq!(stream.trailers.is_some(), one.ends == Ends::Trailers);
            }
        }
    }
    drop(side);
    server.abort();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clients_of_the_h2_crate_get_from_the_engine_what_they_sent(terms in terms(), exchanges in exchanges()) {
        run(our_server(terms, exchanges));
    }

    #[test]
    fn the_engine_gets_from_servers_of_the_h2_crate_what_it_sent(terms in terms(), exchanges in exchanges()) {
        run(our_client(terms, exchanges));
    }
}

#[test]
fn a_window_smaller_than_the_usual_one_opens_again() {
    let ours = Config { stream_window: 20, ..Config::default() };
    let terms = Terms {
        window: 20,
        connection_window: 65_535,
        max_frame: 16_384,
        table: 0,
        max_streams: 3,
        ours,
        pipe: 20,
        cuts: vec![1],
    };
    run(our_client(terms, vec![Exchange { len: 2000, ends: Ends::Plain, stated: false, field: 0 }]));
}
