//! What happens on one client connection? Request after request, until one side has enough; or, where requests are not
//! read, a session ([`tcp`]).

use super::down::h1::{After, H1, Next};
use crate::core::Core;
use crate::listener::admit::admit;
use crate::listener::client::Client;
use crate::listener::rules::Listener;
use crate::peer::per_address::OpenConnection;
use crate::tcp;
use evenkeel_net::boxed::reused;
use evenkeel_net::event_loop;
use evenkeel_net::stream::Stream;
use rustix::fd::OwnedFd;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

/// Serves a client from its accept to its end; at the latest until the time of its listener is over.
pub fn start(core: &Rc<Core>, listener: &Rc<Listener>, fd: OwnedFd, addr: SocketAddr) {
    #[cfg(test)]
    if let Some(scenario) = super::down::memory::scenario_of(&listener.name) {
        let (core, listener) = (core.clone(), listener.clone());
        event_loop::spawn(async move {
            let _open = Open::new(&core, &listener);
            let transport = Stream::new(fd).into();
            scenario(&Client::new(&core, &listener, &transport, addr)).await;
        });
        return;
    }
    let (is_tcp, core, listener) = (listener.peek().tcp.is_some(), core.clone(), listener.clone());
    if is_tcp {
        event_loop::spawn_made(|| async move {
            let mut open = Open::new(&core, &listener);
            let (transport, timer) = (Stream::new(fd).into(), core.wheel.timer());
            let mut client = Client::new(&core, &listener, &transport, addr);
            until_cut(&listener, pin!(tcp::serve(&mut client, &transport, &timer, &mut open.place))).await;
        });
    } else {
        event_loop::spawn_made(|| async move {
            let mut open = Open::new(&core, &listener);
            let down = H1::new(fd, &core);
            let mut client = Client::new(&core, &listener, &down.transport, addr);
            until_cut(&listener, pin!(requests(&mut client, &down, &mut open.place))).await;
        });
    }
}

async fn until_cut<F: Future<Output = ()>>(listener: &Listener, mut served: Pin<&mut F>) {
    poll_fn(|cx| if listener.cut.get() { Poll::Ready(()) } else { served.as_mut().poll(cx) }).await;
}

async fn requests(client: &mut Client<'_>, down: &H1, place: &mut Option<OpenConnection>) {
    let Ok(mut held) = admit(client, &down.transport, &down.timer, place).await else { return };
    let listener = client.listener;
    let mut served = 0u64;
    loop {
        let next = down.next_head(client, &mut held, served == 0).await;
        served += 1;
        // Boxed: while a connection is idle, which most are most of the time, it needs none of this memory.
        let after = match next {
            Next::Head(mut buf) => {
                let rules = listener.rules();
                let last = served >= rules.requests_max;
                reused(|| down.serve(client, &rules, &mut buf, last)).await
            }
            Next::End => return,
            Next::Late => Box::pin(down.give_up(client)).await,
        };
        match after {
            After::Next(rest) => held = rest,
            After::Close => return,
            After::Linger => return down.linger().await,
        }
    }
}

/// Counts a connection while it is open.
struct Open<'w> {
    core: &'w Core,
    listener: &'w Listener,
    /// Among those of its address, where they are limited.
    place: Option<OpenConnection>,
}

impl<'w> Open<'w> {
    fn new(core: &'w Core, listener: &'w Listener) -> Open<'w> {
        listener.stats.active.add(1);
        Open { core, listener, place: None }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Open { core, listener, .. } = *self;
        listener.stats.active.sub(1);
        listener.open.sub();
        core.connection_closed();
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
