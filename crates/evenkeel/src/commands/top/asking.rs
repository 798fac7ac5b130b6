//! Connection to the running process: a thread asks every second, and another follows requests while they are looked at.

use super::model::Message;
use super::order::Order;
use crate::commands::client::Client;
use crate::failure::Failure;
use evenkeel_view::history::History;
use evenkeel_view::served::Route;
use evenkeel_view::tap::Tapped;
use evenkeel_view::{Endpoint, Event, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Time between two questions.
const EVERY: Duration = Duration::from_secs(1);

/// Sends the state of the process every second, and executes orders in between. A response with many routes is long, so
/// routes are read only while `routes` is set.
pub fn ask(client: &Client, orders: &Receiver<Order>, routes: &AtomicBool, tell: &Sender<Message>) {
    loop {
        if routes.load(Relaxed)
            && let Ok(routes) = client.get::<Vec<Route>>("/v1/routes")
        {
            let _ = tell.send(Message::Routes(routes));
        }
        let message = match seen(client) {
            Ok((status, history, events)) => Message::Seen(Box::new(status), history, events),
            Err(failure) => Message::Lost(said(&failure)),
        };
        // Nothing is shown any more.
        if tell.send(message).is_err() {
            return;
        }
        match orders.recv_timeout(EVERY) {
            Ok(order) => {
                let (method, path, body) = order.request();
                let done = client.ask_if::<Endpoint>(&method, &path, body, &order.version);
                let done = done.map(|_| format!("Done: {}", order.text())).map_err(|failure| said(&failure));
                let _ = tell.send(Message::Done(done));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn seen(client: &Client) -> Result<(Status, History, Vec<Event>), Failure> {
    Ok((client.get("/v1/status")?, client.get("/v1/history")?, client.get("/v1/events")?))
}

/// First line of the text of a failure, without its severity.
fn said(failure: &Failure) -> String {
    let text = failure.text(false);
    let text = text.lines().next().unwrap_or_default();
    text.strip_prefix("error: ").unwrap_or(text).to_owned()
}

/// Tells of requests as they end, until it is to stop.
fn tap(open: impl Fn() -> Result<Client, Failure>, stop: &AtomicBool, tell: &Sender<Message>) {
    let follow = || {
        let client = open()?;
        client.follow("/v1/tap", |data| {
            let message = match serde_json::from_str::<Tapped>(data) {
                Ok(one) => Message::Tapped(Box::new(one)),
                Err(_) => Message::Dropped(data.parse().unwrap_or(0)),
            };
            tell.send(message).is_ok() && !stop.load(Relaxed)
        })
    };
    while !stop.load(Relaxed) {
        if let Err(failure) = follow()
            && tell.send(Message::Done(Err(said(&failure)))).is_err()
        {
            return;
        }
        // It has ended, or cannot be asked: it is tried again when it is looked at how the process is.
        std::thread::park_timeout(EVERY);
    }
}

/// A tap that is open until this is dropped.
pub struct Tapping(Arc<AtomicBool>);

impl Tapping {
    /// Tells of requests from now on.
    pub fn start(open: impl Fn() -> Result<Client, Failure> + Send + 'static, tell: Sender<Message>) -> Tapping {
        let stop = Arc::<AtomicBool>::default();
        let stops = stop.clone();
        std::thread::spawn(move || tap(open, &stops, &tell));
        Tapping(stop)
    }
}

impl Drop for Tapping {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Tells that the terminal is taken away, or that the process is to end.
pub fn signals(tell: &Sender<Message>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    runtime.block_on(async {
        let (Ok(mut end), Ok(mut hangup), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::hangup()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        tokio::select! {
            _ = end.recv() => {}
            _ = hangup.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = tell.send(Message::End);
    });
}
