//! What happens on one client connection? Request after request, until one side has enough.

use crate::client::{Client, Next};
use crate::exchange::{self, After};
use crate::http1::Reject;
use crate::record::{Cause, Record};
use crate::worker::Worker;
use rustix::fd::OwnedFd;
use std::fmt::Display;
use std::net::SocketAddr;
use std::rc::Rc;

/// Serves a client from its accept to its end.
pub async fn serve(worker: Rc<Worker>, listener: usize, fd: OwnedFd, peer: SocketAddr) {
    let _open = Open::new(&worker, listener);
    let client = Client::new(&worker, listener, fd, peer);
    let requests_max = client.settings().requests_max;
    let mut held = None;
    let mut served = 0u64;
    loop {
        let (buf, head_len) = match client.next_head(held.take(), served == 0).await {
            Next::Head(buf, head_len) => (buf, head_len),
            Next::End => return,
            Next::Late => {
                refuse(&client, &Record::new(&client), Cause::ClientSlow, 408, &"no whole request in time").await;
                return client.linger().await;
            }
            Next::Refused(reject) => {
                refuse_malformed(&client, &Record::new(&client), reject).await;
                return client.linger().await;
            }
        };
        served += 1;
        let last = served == requests_max;
        // Boxed: while a connection is idle, which most are most of the time, it needs none of this memory.
        match Box::pin(exchange::run(&client, buf, head_len, last)).await {
            After::Next(rest) => held = rest,
            After::Close => return,
            After::Linger => return client.linger().await,
        }
    }
}

/// Tells the client why its bytes are no request.
pub async fn refuse_malformed(client: &Client<'_>, record: &Record<'_>, reject: Reject) {
    client.stats().malformed.add(1);
    refuse(client, record, Cause::Proxy, reject.status(), &reject).await;
}

/// Tells the client why there is no request; its connection is to be closed.
async fn refuse(client: &Client<'_>, record: &Record<'_>, cause: Cause, status: u16, why: &dyn Display) {
    record.blame(cause);
    record.status.set(status);
    let sent = client.reply(status, why, true, false).await;
    record.count_out(sent as usize);
}

/// Counts a connection while it is open.
struct Open<'w>(&'w Worker, usize);

impl<'w> Open<'w> {
    fn new(worker: &'w Worker, listener: usize) -> Open<'w> {
        worker.stats.listeners[listener].active.add(1);
        Open(worker, listener)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Open(worker, listener) = *self;
        worker.stats.listeners[listener].active.sub(1);
        worker.listeners[listener].open.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        worker.connection_closed();
    }
}
