//! Clients of HTTP/3 on a thread, driven by epoll.

use super::client::{Asks, Client, Memory};
use crate::child;
use crate::error::{Error, Result, While};
use quinn_proto::ClientConfig;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Longest wait, after which interrupts are noticed.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Longest time without a datagram from a proxy that has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Fleet {
    port: u16,
    config: ClientConfig,
    asks: Asks,
    pub clients: Vec<Client>,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    memory: Memory,
    /// Number of responses to clients that are gone.
    answered: u64,
}

impl Fleet {
    /// Opens clients, which begin to connect.
    ///
    /// # Errors
    /// If the system gives no sockets.
    pub fn open(port: u16, config: ClientConfig, asks: Asks, clients: u32) -> Result<Fleet> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).or_say(|| "cannot create an event loop".into())?;
        let (events, memory) = (Vec::with_capacity(256), Memory::default());
        let mut fleet = Fleet { port, config, asks, clients: Vec::new(), epoll, events, memory, answered: 0 };
        for index in 0..clients as usize {
            let client = fleet.connect(index)?;
            fleet.clients.push(client);
        }
        Ok(fleet)
    }

    fn connect(&mut self, index: usize) -> Result<Client> {
        let mut client = Client::connect(self.port, &self.config, self.asks.clone())?;
        let data = epoll::EventData::new_u64(index as u64);
        let added = epoll::add(&self.epoll, &client.socket, data, epoll::EventFlags::IN);
        added.or_say(|| "cannot watch a UDP socket".into())?;
        client.drive(&mut self.memory, false)?;
        Ok(client)
    }

    /// Number of responses so far.
    pub fn answered(&self) -> u64 {
        self.answered + self.clients.iter().map(|client| client.answered).sum::<u64>()
    }

    /// Replaces each client that has all of its responses by another.
    fn replace_done(&mut self, index: usize) -> Result<()> {
        let streams = u64::from(self.asks.streams);
        if self.clients[index].answered >= streams {
            let next = self.connect(index)?;
            let done = std::mem::replace(&mut self.clients[index], next);
            self.answered += done.answered;
            done.close(&mut self.memory);
        }
        Ok(())
    }

    /// Drives the clients until a time, or until `is_done`. `reconnects`: a client that is done is replaced.
    ///
    /// # Errors
    /// If a connection fails, or a response is not the expected one.
    pub fn drive(&mut self, until: Instant, reconnects: bool, is_done: impl Fn(&Fleet) -> bool) -> Result<()> {
        let mut heard = Instant::now();
        while !is_done(self) {
            let now = Instant::now();
            if now >= until {
                return Ok(());
            }
            let due = self.clients.iter_mut().filter_map(Client::due).min();
            let wait = due.map_or(WAIT_MAX, |due| due.saturating_duration_since(now)).min(WAIT_MAX);
            // Whole milliseconds, or the kernel would wake this thread for each of the many timers.
            let wait = Timespec { tv_sec: 0, tv_nsec: (wait.as_millis() as i64 + 1) * 1_000_000 };
            self.events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::Os("cannot wait for datagrams".into(), error.into())),
            }
            child::go_on()?;
            for at in 0..self.events.len() {
                let index = self.events[at].data.u64() as usize;
                self.clients[index].drive(&mut self.memory, true)?;
                heard = self.clients[index].heard;
                if reconnects {
                    self.replace_done(index)?;
                }
            }
            let now = Instant::now();
            for client in &mut self.clients {
                if client.due().is_some_and(|due| due <= now) {
                    client.drive(&mut self.memory, false)?;
                }
            }
            if now.saturating_duration_since(heard) > PATIENCE {
                return Err(Error::Refused(format!("port {} has sent nothing for {PATIENCE:?}", self.port)));
            }
        }
        Ok(())
    }

    /// Sends further requests on every client in `step`, and drives all until they are answered.
    ///
    /// # Errors
    /// If any is not answered.
    pub fn ask_again(&mut self, step: usize) -> Result<()> {
        let wanted = u64::from(self.asks.streams);
        for client in self.clients.iter_mut().step_by(step) {
            client.ask_again(&mut self.memory)?;
        }
        self.drive(Instant::now() + PATIENCE, false, |fleet| {
            fleet.clients.iter().step_by(step).all(|client| client.answered >= wanted)
        })?;
        let is_answered = self.clients.iter().step_by(step).all(|client| client.answered >= wanted);
        if is_answered { Ok(()) } else { Err(Error::Refused("an idle connection answers no more".into())) }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // The proxy would keep the connections, and send again, until it gives up.
        for client in self.clients.drain(..) {
            client.close(&mut self.memory);
        }
    }
}
