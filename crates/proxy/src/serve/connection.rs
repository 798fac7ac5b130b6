//! A client connection from its accept to its end: HTTP/1 requests in turn until either side closes, or a session if
//! requests are not read ([`tcp`]). A connection that turns out to speak HTTP/2 is passed to [`h2`].

use crate::core::Core;
use crate::core::linger::{Patience, delivered};
use crate::listener::admit::admit;
use crate::listener::client::Client;
use crate::listener::rules::Listener;
use crate::listener::secure::secure;
use crate::peer::per_address::OpenConnection;
use crate::serve::h1::{After, H1, Next};
use crate::serve::h2;
use crate::serve::open::Open;
use crate::tcp;
use evenkeel_net::boxed::reused;
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop;
use evenkeel_net::stream::Stream;
use evenkeel_net::tls::{Cause, TlsStream};
use evenkeel_net::transport::Transport;
use evenkeel_tls::challenges::PROTOCOL;
use rustix::fd::OwnedFd;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

/// Spawns the task that serves a connection. It ends at the latest when the drain timeout of its listener is over.
pub fn start(core: &Rc<Core>, listener: &Rc<Listener>, fd: OwnedFd, addr: SocketAddr) {
    let (is_tcp, is_tls) = listener.is_tcp_is_tls();
    let (core, listener) = (core.clone(), listener.clone());
    let transport = move || {
        let stream = Stream::new(fd);
        if is_tls { Transport::Tls(Box::new(TlsStream::new(stream))) } else { Transport::Plain(stream) }
    };
    if is_tcp {
        event_loop::spawn_made(|| async move {
            let mut open = Open::new(core, listener);
            let (transport, timer) = (transport(), open.core.wheel.timer());
            let Open { core, listener, place, states } = &mut open;
            let mut client = Client::new(core, listener, &transport, addr, states);
            until_cut(listener, pin!(tcp::serve(&mut client, &transport, &timer, place))).await;
        });
    } else {
        let mut open = Open::new(core, listener);
        event_loop::spawn_made(|| async move {
            let down = H1::new(transport(), &open.core);
            let Open { core, listener, place, states } = &mut open;
            let mut client = Client::new(core, listener, &down.transport, addr, states);
            let ended = until_cut(listener, pin!(requests(&mut client, &down, place))).await;
            if let Some(Ended::Http2(came)) = ended {
                let identity = client.peer.identity();
                drop(client);
                // A separate task, as HTTP/2 needs a different amount of memory.
                h2::start(open, down, identity, came);
            }
        });
    }
}

/// End of the HTTP/1 part of a connection.
enum Ended {
    /// The connection is closed.
    Closed,
    /// The client speaks HTTP/2; these bytes were already read.
    Http2(Buf),
}

fn until_cut<F: Future>(listener: &Listener, mut served: Pin<&mut F>) -> impl Future<Output = Option<F::Output>> {
    poll_fn(move |cx| if listener.cut.get() { Poll::Ready(None) } else { served.as_mut().poll(cx).map(Some) })
}

async fn requests(client: &mut Client<'_>, down: &H1, place: &mut Option<OpenConnection>) -> Ended {
    let Ok(mut held) = admit(client, &down.transport, &down.timer, place).await else { return Ended::Closed };
    // Boxed here and below: most connections are idle most of the time, and need none of this memory then.
    if down.transport.as_tls().is_some()
        && let Err(ended) = Box::pin(secured(client, down, held.take())).await
    {
        return ended;
    }
    let mut served = 0u64;
    loop {
        let next = down.next_head(client, &mut held, served == 0).await;
        served += 1;
        match turn(client, down, next, served).await {
            Ok(rest) => held = rest,
            Err(ended) => return ended,
        }
    }
}

/// Makes the handshake of TLS. `held`: bytes of it that came with the PROXY protocol header. `Err` if no request follows.
async fn secured(client: &mut Client<'_>, down: &H1, held: Option<Buf>) -> Result<(), Ended> {
    let Some(tls) = down.transport.as_tls() else { return Ok(()) };
    let is_told = match secure(client, tls, &down.timer, held).await {
        Ok(info) if info.is_h2() => return Err(Ended::Http2(Buf::none())),
        // ACME `tls-alpn-01`: the authority has seen the certificate, and sends no request (RFC 8737 section 3).
        Ok(info) if info.alpn.as_deref() == Some(PROTOCOL) => true,
        Ok(_) => return Ok(()),
        Err(error) => {
            if error.cause == Cause::PlainHttp {
                down.expected_tls(client).await;
            }
            error.is_told()
        }
    };
    if is_told {
        client.linger(&down.transport, &down.timer, Patience::FAULT).await;
    }
    Err(Ended::Closed)
}

/// Serves the `served`th request. Returns bytes of the next, or how the connection ends.
fn turn(
    client: &mut Client<'_>,
    down: &H1,
    next: Next,
    served: u64,
) -> impl Future<Output = Result<Option<Buf>, Ended>> {
    reused(move || async move {
        let after = match next {
            Next::Head(mut buf) => {
                let rules = client.listener.rules();
                if rules.plan.h2c && served == 1 && h2::is_preface(buf.filled()) {
                    return Err(Ended::Http2(buf));
                }
                let last = rules.is_last(served);
                down.serve(client, &rules, &mut buf, last).await
            }
            Next::End => return Err(Ended::Closed),
            Next::Late => Box::pin(down.give_up(client)).await,
        };
        let after = match after {
            // Boxed: few responses end before their requests.
            After::Discard(unsent) => Box::pin(down.discard(client, unsent)).await,
            after => after,
        };
        match after {
            After::Next(rest) => return Ok(rest),
            After::Close => {
                if down.transport.resets_on_close() {
                    Box::pin(delivered(&down.transport)).await;
                }
            }
            After::Linger | After::Discard(_) => {
                Box::pin(client.linger(&down.transport, &down.timer, Patience::UPLOAD)).await;
            }
        }
        Err(Ended::Closed)
    })
}
