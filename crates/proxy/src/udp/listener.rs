//! A worker's UDP socket and its flows. Datagrams of clients are forwarded to the endpoint of their flow, which is
//! picked for its first datagram; datagrams of endpoints go to the flow's client.

use super::flow::{Batch, Flow, Key, Link};
use super::quic_id;
use super::table::{Index, Table};
use crate::core::Core;
use crate::listener::rules::{Listener, Rules};
use crate::observe::flow_end::{FlowEnd, LostDatagram};
use crate::observe::stats::{ErrorKind, UdpStats};
use crate::peer::admission::TooMany;
use crate::peer::hash_key;
use crate::upstream::pool::WorkerPool;
use crate::upstream::target::Target;
use evenkeel_balance::{Clock, Exclusion, FailureKind, Instant, NoPick, Outcome, Request, Slot};
use evenkeel_net::datagrams::recv_batch::{JOINED_MAX, RecvBatch, SLOTS};
use evenkeel_net::datagrams::send_batch::{SendBatch, To};
use evenkeel_net::datagrams::socket;
use evenkeel_net::dial::Remote;
use evenkeel_net::listen::ListenFd;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of receive slots for answers of a flow in a batch, so that others get their turn.
const ANSWERS_AT_ONCE: usize = 8;

/// Maximum number of flows whose answers are read before clients get their turn.
const FLOWS_AT_ONCE: usize = 64;

/// Maximum number of endpoints at which a batch of a flow is tried.
const TRIES: usize = 3;

/// A worker's socket at an address, and its flows.
pub struct UdpListener {
    /// Address that the socket is bound to.
    pub addr: SocketAddr,
    /// Listener whose rules apply.
    pub listener: RefCell<Rc<Listener>>,
    /// True if datagrams that would begin a flow are dropped.
    pub is_draining: Cell<bool>,
    pub socket: ListenFd,
    /// Epoll set with the sockets of all flows, so that none needs a task.
    watch: Arc<OwnedFd>,
    state: RefCell<State>,
}

struct State {
    flows: Table<Key, Flow>,
    received: RecvBatch,
    sending: SendBatch,
}

impl UdpListener {
    /// Creates a listener without flows.
    pub fn new(
        addr: SocketAddr,
        listener: RefCell<Rc<Listener>>,
        socket: ListenFd,
        watch: Arc<OwnedFd>,
    ) -> UdpListener {
        let (flows, sending) = (Table::default(), SendBatch::default());
        let state = RefCell::new(State { flows, received: RecvBatch::new(JOINED_MAX), sending });
        UdpListener { addr, listener, is_draining: Cell::new(false), socket, watch, state }
    }

    /// Receives a batch from clients and forwards it. Returns true if there may be more.
    pub fn take(&self, core: &Core) -> bool {
        let (state, listener) = (&mut *self.state.borrow_mut(), self.listener.borrow().clone());
        let Ok(taken) = state.received.take(self.socket.as_fd(), 0, SLOTS, true) else { return false };
        let (now, stats) = (core.clock.now(), &listener.stats.udp);
        let batch = Batch { core, listener: &listener, now };
        let mut last: Option<(Key, Index)> = None;
        for slot in 0..taken {
            let came = *state.received.came(slot);
            stats.datagrams_in.add(came.count() as u64);
            stats.bytes_in.add(came.len as u64);
            let Some(client) = came.from else { continue };
            let key = Key { client, ours: came.to };
            let index = match last.filter(|(same, _)| *same == key) {
                Some((_, index)) => index,
                None => {
                    if let Some((_, before)) = last.take() {
                        self.pass_on(batch, state, before);
                    }
                    let found = state.flows.find(&key).map_or_else(|| self.begin(batch, state, key, slot), Ok);
                    match found {
                        Ok(index) => index,
                        Err(why) => {
                            stats.lost[why as usize].add(came.count() as u64);
                            continue;
                        }
                    }
                }
            };
            last = Some((key, index));
            state.flows.touch(index, now);
            if let Some((_, flow)) = state.flows.get_mut(index) {
                flow.bytes_in += came.len as u64;
            }
            state.sending.push(slot, &came, index, None);
        }
        if let Some((_, index)) = last {
            self.pass_on(batch, state, index);
        }
        taken == SLOTS
    }

    /// Sends the batch to the flow's endpoint. If that refuses it, tries another endpoint, up to [`TRIES`] times in
    /// all. The rest of the batch is lost.
    fn pass_on(&self, batch: Batch<'_>, state: &mut State, index: Index) {
        let State { flows, received, sending } = state;
        let stats = &batch.listener.stats.udp;
        let mut why = LostDatagram::Unreachable;
        for _ in 0..TRIES {
            let Some((key, flow)) = flows.get_mut(index) else { break };
            let linked = if flow.link.is_some() { Ok(()) } else { self.link(batch, flow, key, index) };
            match (linked, &mut flow.link) {
                (Ok(()), Some(link)) => {
                    let flushed = sending.flush(&link.socket, received);
                    link.asked += flushed.datagrams;
                    link.endpoint.stats.sent.add(flushed.bytes);
                    stats.lost[LostDatagram::Unsent as usize].add(flushed.lost);
                    if !flushed.is_refused {
                        return;
                    }
                    fail(flow, stats, batch.now);
                }
                (Err(LostDatagram::NoSocket), _) => {
                    why = LostDatagram::NoSocket;
                    let Some((oldest, _)) = flows.oldest().filter(|(oldest, _)| *oldest != index) else { break };
                    batch.end(flows, oldest, FlowEnd::Evicted);
                }
                (Err(LostDatagram::Unreachable), _) => why = LostDatagram::Unreachable,
                (Err(lost), _) => {
                    why = lost;
                    break;
                }
                (Ok(()), None) => break,
            }
        }
        stats.lost[why as usize].add(sending.clear());
    }

    /// Receives a batch from endpoints and forwards it. Returns true if there may be more.
    pub fn answer(&self, core: &Core) -> bool {
        let (state, listener) = (&mut *self.state.borrow_mut(), self.listener.borrow().clone());
        let (now, stats, answers) = (core.clock.now(), &listener.stats.udp, listener.plan().udp.answers);
        let batch = Batch { core, listener: &listener, now };
        let mut events = [const { EVENT }; FLOWS_AT_ONCE];
        let Ok(ready) = epoll::wait(&self.watch, &mut events[..], Some(&NOW)) else { return false };
        let (mut used, mut more) = (0, ready == FLOWS_AT_ONCE);
        for event in &events[..ready] {
            let index = event.data.u64() as Index;
            if used == SLOTS {
                self.send_answers(state, stats);
                used = 0;
            }
            // The flow may have ended after epoll reported its socket.
            let Some((key, flow)) = state.flows.get_mut(index) else { continue };
            let Some(link) = &mut flow.link else { continue };
            let most = ANSWERS_AT_ONCE.min(SLOTS - used);
            match state.received.take(link.socket.as_fd(), used, most, false) {
                Ok(taken) => {
                    more |= taken == most;
                    let to = Some(To { client: key.client, ours: key.ours, interface: 0 });
                    for slot in used..used + taken {
                        let came = state.received.came(slot);
                        flow.on_answer(came.count(), came.len, now);
                        state.sending.push(slot, came, index, to);
                    }
                    used += taken;
                    if answers > 0 && flow.link.as_ref().is_some_and(|link| link.has_all(answers)) {
                        batch.end(&mut state.flows, index, FlowEnd::Answered);
                    } else {
                        state.flows.touch(index, now);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => fail(flow, stats, now),
            }
        }
        self.send_answers(state, stats);
        more
    }

    fn send_answers(&self, state: &mut State, stats: &UdpStats) {
        if state.sending.is_empty() {
            return;
        }
        let sent = state.sending.flush(&*self.socket, &state.received);
        stats.datagrams_out.add(sent.datagrams);
        stats.bytes_out.add(sent.bytes);
        stats.lost[LostDatagram::Unsent as usize].add(sent.lost);
    }

    /// Begins a flow with the datagram in `slot`, if the limits of its client's address allow it.
    fn begin(&self, batch: Batch<'_>, state: &mut State, key: Key, slot: usize) -> Result<Index, LostDatagram> {
        let Batch { core, listener, now } = batch;
        if self.is_draining.get() {
            return Err(LostDatagram::Draining);
        }
        let (rules, ip) = (listener.rules(), key.client.ip());
        rules.compiled.admission.request(ip, || now).map_err(|_| LostDatagram::Rate)?;
        let place = rules.compiled.admission.open(ip).map_err(|TooMany| LostDatagram::PerAddress)?;
        if listener.open.add() >= listener.plan().limits.connections {
            let evicted = state.flows.oldest();
            match evicted {
                Some((oldest, _)) => batch.end(&mut state.flows, oldest, FlowEnd::Evicted),
                None => {
                    listener.open.sub();
                    return Err(LostDatagram::Connections);
                }
            }
        }
        core.flow_opened();
        listener.stats.udp.flows.add(1);
        listener.stats.udp.active.add(1);
        rules.stats(rules.compiled.router.of_datagrams().unwrap_or(rules.unrouted())).sessions.add(1);
        let mut flow = Flow::new(place, now);
        if let Some(id) = quic_id::of(state.received.bytes(slot)) {
            let mut pools = target_of(&rules).into_iter().flat_map(Target::pools);
            flow.named = pools.find_map(|pool| Some((pool.name.clone(), pool.endpoints.of_quic_id(id)?)));
        }
        Ok(state.flows.insert(key, flow, now))
    }

    /// Picks and connects an endpoint for a flow.
    fn link(&self, batch: Batch<'_>, flow: &mut Flow, key: &Key, index: Index) -> Result<(), LostDatagram> {
        let Batch { core, listener, now } = batch;
        let (rules, client) = (listener.rules(), key.client.ip().to_canonical());
        let target = target_of(&rules).ok_or(LostDatagram::NoEndpoint)?;
        // By name, as a change of its algorithm makes a pool anew.
        let drawn = flow.pool.as_ref().and_then(|drawn| target.pools().find(|pool| pool.name == drawn.name));
        let pool = match drawn {
            Some(pool) => pool,
            None => {
                flow.failed = None;
                target.pool_of_client(core, client).ok_or(LostDatagram::NoEndpoint)?
            }
        };
        flow.pool = Some(pool.clone());
        let hash = pool.plan().key().map(|_| hash_key::of_client(client));
        let named = flow.named.take().filter(|(of, _)| *of == pool.name);
        let pick = |tried: &[Slot]| pool.balancer.borrow_mut().start(&Request { key: hash, tried, beyond: false }, now);
        // An endpoint that has failed is used again if there is no other.
        let picked = match flow.failed {
            Some(failed) => pick(&[failed]).or_else(|why| if why == NoPick::AllTried { pick(&[]) } else { Err(why) }),
            None => match named.map(|(_, slot)| pool.balancer.borrow_mut().start_at(slot, now)) {
                Some(Ok(ticket)) => Ok(ticket),
                // It has left or has no room: another endpoint tells the client that the connection is gone.
                Some(Err(_)) | None => pick(&[]),
            },
        };
        let ticket = picked.map_err(|why| {
            pool.stats.no_pick[why as usize].add(1);
            LostDatagram::NoEndpoint
        })?;
        let endpoint = pool.endpoints.at(ticket.slot());
        flow.note_try_began(pool);
        endpoint.stats.active.add(1);
        match endpoint
            .addr
            .as_ref()
            .and_then(Remote::socket_addr)
            .ok_or_else(no_address)
            .and_then(|addr| self.connect(addr, index))
        {
            Ok(socket) => {
                endpoint.stats.connects.add(1);
                endpoint.stats.sessions.add(1);
                if flow.failed.take().is_some() {
                    listener.stats.udp.moved.add(1);
                }
                flow.was_at = Some((pool.clone(), endpoint.clone()));
                flow.link =
                    Some(Link { socket, pool: pool.clone(), endpoint, ticket, asked: 0, answered: 0, asked_before: 0 });
                Ok(())
            }
            Err(error) if is_ours(&error) => {
                pool.take_back(ticket, &endpoint, Outcome::Cancelled, now);
                Err(LostDatagram::NoSocket)
            }
            Err(_) => {
                endpoint.stats.errors[ErrorKind::Connect as usize].add(1);
                endpoint.stats.unreached.add(1);
                flow.failed = Some(ticket.slot());
                pool.take_back(ticket, &endpoint, Outcome::failed(FailureKind::Connect), now);
                Err(LostDatagram::Unreachable)
            }
        }
    }

    fn connect(&self, addr: SocketAddr, index: Index) -> io::Result<OwnedFd> {
        let socket = socket::connect(addr)?;
        epoll::add(&self.watch, &socket, epoll::EventData::new_u64(index.into()), epoll::EventFlags::IN)?;
        Ok(socket)
    }

    /// Ends the flows that were idle for longer than the listener allows.
    pub fn expire(&self, core: &Core, now: Instant) {
        let (flows, listener) = (&mut self.state.borrow_mut().flows, self.listener.borrow().clone());
        let idle_ns = u64::try_from(listener.plan().udp.idle.as_nanos()).unwrap_or(u64::MAX);
        while let Some((index, used)) = flows.oldest()
            && now.since(used) >= idle_ns
        {
            Batch { core, listener: &listener, now }.end(flows, index, FlowEnd::Idle);
        }
    }

    /// Time at which the flow that has been idle longest expires; `None` without flows.
    pub fn expires_at(&self) -> Option<Instant> {
        let (_, used) = self.state.borrow().flows.oldest()?;
        let idle_ns = u64::try_from(self.listener.borrow().plan().udp.idle.as_nanos()).unwrap_or(u64::MAX);
        Some(Instant(used.0.saturating_add(idle_ns)))
    }

    /// Takes flows away from endpoints that have left the pool or fail their checks; they pick another with their next
    /// datagram. Draining endpoints keep theirs.
    pub fn look(&self, now: Instant) {
        let (state, listener) = (&mut *self.state.borrow_mut(), self.listener.borrow().clone());
        let rules = listener.rules();
        let Some(target) = target_of(&rules) else { return };
        let pools: Vec<(&Rc<WorkerPool>, Vec<Slot>)> = target.pools().map(|pool| (pool, unhealthy(pool))).collect();
        for flow in state.flows.iter_mut() {
            let Some(link) = &flow.link else { continue };
            let slot = link.ticket.slot();
            let may_stay = pools.iter().find(|(pool, _)| pool.name == link.pool.name).is_some_and(|(pool, down)| {
                pool.endpoints.has(slot, &link.endpoint) && !link.endpoint.is_gone() && !down.contains(&slot)
            });
            if !may_stay {
                flow.leave(now);
                listener.stats.udp.moved.add(1);
            }
        }
    }

    /// Ends all flows, as closed by this proxy.
    pub fn close(&self, core: &Core) {
        let (flows, listener) = (&mut self.state.borrow_mut().flows, self.listener.borrow().clone());
        while let Some((index, _)) = flows.oldest() {
            Batch { core, listener: &listener, now: core.clock.now() }.end(flows, index, FlowEnd::Closed);
        }
    }
}

impl Batch<'_> {
    /// Removes a flow, logs it and counts its end.
    fn end(self, flows: &mut Table<Key, Flow>, index: Index, why: FlowEnd) {
        let Batch { core, listener, now } = self;
        let Some((key, mut flow)) = flows.remove(index) else { return };
        let has_failed = flow.has_failed();
        flow.leave(now);
        flow.count(&listener.rules(), has_failed, now);
        flow.log(&key, why, self);
        let stats = &listener.stats.udp;
        stats.active.sub(1);
        stats.ended[why as usize].add(1);
        listener.open.sub();
        core.flow_closed();
    }
}

const NOW: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };

const EVENT: epoll::Event = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };

/// Pools of a listener's route for any host and path: datagrams have neither.
fn target_of(rules: &Rules) -> Option<&Target> {
    rules.compiled.router.of_datagrams().and_then(|route| rules.routes.target(route))
}

/// Slots of a pool's endpoints that fail their checks.
fn unhealthy(pool: &WorkerPool) -> Vec<Slot> {
    let balancer = pool.balancer.borrow();
    let excluded = balancer.set().excluded().iter();
    excluded.filter(|(.., why)| *why == Exclusion::Unhealthy).map(|(slot, ..)| *slot).collect()
}

/// Ends the link of a flow whose endpoint refused a datagram (ICMP port unreachable); the next datagram picks another.
fn fail(flow: &mut Flow, stats: &UdpStats, now: Instant) {
    let Some(link) = flow.link.take() else { return };
    stats.lost[LostDatagram::Refused as usize].add(link.refused());
    flow.failed = Some(link.ticket.slot());
    link.endpoint.stats.errors[ErrorKind::Connect as usize].add(1);
    link.end(Outcome::failed(FailureKind::Connect), now);
}

/// True if a socket could not be opened for want of descriptors, ports or memory on this machine.
fn is_ours(error: &io::Error) -> bool {
    let ours = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOBUFS, Errno::NOMEM, Errno::NOSPC];
    Errno::from_io_error(error).is_some_and(|errno| ours.contains(&errno))
}

fn no_address() -> io::Error {
    io::Error::from(io::ErrorKind::AddrNotAvailable)
}
