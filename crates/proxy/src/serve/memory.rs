//! Is a [`Downstream`] all that serving a request needs of its client? A client in memory, which speaks messages and no
//! protocol, in front of real endpoints: a listener with a scenario runs that on its worker for each connection.
#![allow(clippy::disallowed_types, reason = "a test waits for what a worker does")]

use crate::body::downstream::{ClientParts, Downstream, Flow};
use crate::body::fault::Fault;
use crate::body::part::Part;
use crate::listener::client::Client;
use crate::serve::message::{Messages, Spoken};
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::Body;
use evenkeel_wire::http1::fields::Stated;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// What a worker does for a connection of a listener.
pub type Scenario = Arc<dyn for<'c> Fn(&'c Client<'c>) -> Pin<Box<dyn Future<Output = ()> + 'c>> + Send + Sync>;

static SCENARIOS: Mutex<Option<HashMap<String, Scenario>>> = Mutex::new(None);

/// The scenario of the listener of that name, if it has one.
pub fn scenario_of(listener: &str) -> Option<Scenario> {
    SCENARIOS.lock().expect("nothing panics with it").as_ref()?.get(listener).cloned()
}

/// Gives a listener a scenario; no other test may have one of its name.
pub fn set_scenario(listener: &str, scenario: Scenario) {
    SCENARIOS.lock().expect("nothing panics with it").get_or_insert_default().insert(listener.to_string(), scenario);
}

/// One request of a client in memory.
pub struct Memory {
    timer: Timer,
    state: RefCell<State>,
}

/// What went on between the client and its request.
#[derive(Default)]
struct State {
    /// Parts that the client has sent and that were not taken yet.
    parts: VecDeque<Part>,
    /// Parts that were taken.
    taken: usize,
    /// Parts that the client takes still.
    room: usize,
    /// Interim heads, and the final one.
    heads: Vec<(u16, Table)>,
    body: Vec<u8>,
    trailers: Option<Table>,
    ended: bool,
    reset: bool,
    gone: bool,
    /// All who wait, for whatever: each looks again.
    wakers: Vec<Waker>,
}

impl State {
    fn changed(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Downstream for Memory {
    type Parts<'p> = &'p Memory;

    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |state| state.gone.then_some(()))
    }

    fn parts<'p>(&'p self, _: Flow<'p>, _: Body, _: Buf) -> &'p Memory {
        self
    }
}

impl ClientParts for Memory {
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        self.poll(cx, |state| {
            let part = state.parts.pop_front().map(Ok).or(state.gone.then_some(Err(Fault::ClientGone)));
            state.taken += usize::from(matches!(part, Some(Ok(_))));
            part
        })
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.poll(cx, |state| match (state.gone, state.room) {
            (true, _) => Some(Err(Fault::ClientGone)),
            (false, 0) => None,
            (false, _) => Some(Ok(())),
        })
    }

    fn send_head(&self, status: u16, fields: Table, ends: bool) -> u16 {
        self.change(|state| {
            state.heads.push((status, fields));
            state.ended |= ends;
        });
        status
    }

    fn send(&self, part: Part) {
        self.change(|state| {
            assert!(!state.ended, "nothing follows the end");
            match part {
                Part::Data(buf) => {
                    assert!(!buf.is_empty(), "no data is no part");
                    state.room = state.room.checked_sub(1).expect("data is sent only where there is room");
                    state.body.extend_from_slice(buf.filled());
                }
                Part::Trailers(trailers) => state.trailers = Some(trailers),
                Part::End => state.ended = true,
            }
        });
    }
}

impl Messages for Memory {
    fn reset(&self) {
        self.change(|state| state.reset = true);
    }
}

impl Memory {
    /// A request whose client takes so many parts of its response.
    pub fn new(client: &Client<'_>, room: usize) -> Memory {
        let state = State { room, ..State::default() };
        Memory { timer: client.core.wheel.timer(), state: state.into() }
    }

    fn poll<T>(&self, cx: &Context<'_>, look: impl FnOnce(&mut State) -> Option<T>) -> Poll<T> {
        let mut state = self.state.borrow_mut();
        match look(&mut state) {
            Some(seen) => Poll::Ready(seen),
            None => {
                state.wakers.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let changed = change(&mut state);
        state.changed();
        changed
    }

    /// The client sends a part of its request.
    pub fn push(&self, part: Part) {
        self.change(|state| state.parts.push_back(part));
    }

    /// The same, of data.
    pub fn push_data(&self, bytes: &[u8]) {
        let mut buf = Buf::take();
        assert!(buf.extend(bytes), "it fits into a buffer");
        self.push(Part::Data(buf));
    }

    /// The client takes so many parts more.
    pub fn give_room(&self, parts: usize) {
        self.change(|state| state.room += parts);
    }

    /// The client goes away.
    pub fn vanish(&self) {
        self.change(|state| state.gone = true);
    }

    /// Waits until the final head, and so many bytes of its body, were sent.
    pub async fn has_sent(&self, bytes: usize) {
        let done = |state: &mut State| {
            let is_final = state.heads.last().is_some_and(|(status, _)| *status >= 200);
            (is_final && state.body.len() >= bytes).then_some(())
        };
        poll_fn(|cx| self.poll(cx, done)).await;
    }

    /// Parts of the request that were taken.
    pub fn taken(&self) -> usize {
        self.state.borrow().taken
    }

    /// The statuses of all heads that were sent.
    pub fn statuses(&self) -> Vec<u16> {
        self.state.borrow().heads.iter().map(|(status, _)| *status).collect()
    }

    /// The first value of a field of the last head.
    pub fn field(&self, name: &str) -> Option<String> {
        let state = self.state.borrow();
        first(&state.heads.last()?.1, name)
    }

    /// The first value of a trailer.
    pub fn trailer(&self, name: &str) -> Option<String> {
        first(self.state.borrow().trailers.as_ref()?, name)
    }

    /// The body so far.
    pub fn body(&self) -> String {
        String::from_utf8_lossy(&self.state.borrow().body).into_owned()
    }

    /// Whether the response has ended, and whether by a reset.
    pub fn end(&self) -> (bool, bool) {
        let state = self.state.borrow();
        (state.ended, state.reset)
    }

    /// Serves it, with this request line and these fields. `ended`: no parts come.
    pub async fn serve(&self, client: &Client<'_>, line: &str, fields: &[(&str, &str)], framing: Stated, ended: bool) {
        let (method, target) = line.split_once(' ').expect("a method and a target");
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let mut request = Request { method, target, host: b"example.com", fields: table.fields() };
        let rules = client.listener.rules();
        let spoken = Spoken { proto: "memory", framing, ended, switch: None };
        crate::serve::message::serve(client, &rules, self, &mut request, spoken).await;
    }
}

fn first(table: &Table, name: &str) -> Option<String> {
    let named = table.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()));
    named.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
}

#[path = "memory_tests.rs"]
mod tests;
