//! Random sequences of everything that can happen to a balancer, checked against a simple model.

use crate::rows::{self, Balanced, Endpoints, Request, Response};
use evenkeel_balance::Rng;
use evenkeel_tower::ResponseFuture;
use std::collections::BTreeMap;
use std::task::Poll;
use tokio_test::task::{self, Spawn};
use tower::Service;
use tower_test::mock::{Handle, Mock, SendResponse};

type Running = Spawn<ResponseFuture<<Mock<Request, Response> as Service<Request>>::Future, rows::Reporting>>;

struct World {
    name: String,
    rng: Rng,
    svc: Spawn<Balanced>,
    endpoints: Endpoints,
    /// By key, endpoints that were discovered and have not failed, and the number of requests that each would take now.
    handles: BTreeMap<u32, (Handle<Request, Response>, u64)>,
    /// Endpoints that were removed; they may still have requests to answer.
    left: Vec<Handle<Request, Response>>,
    asked: Vec<SendResponse<Response>>,
    running: Vec<Running>,
}

impl World {
    fn new(algorithm: &str, script: u64) -> World {
        let (balancer, endpoints) = rows::balancer(algorithm, script);
        let (handles, left, asked, running) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
        let (name, rng, svc) = (format!("{algorithm}, script {script}"), Rng::new(script), task::spawn(balancer));
        World { name, rng, svc, endpoints, handles, left, asked, running }
    }

    fn step(&mut self) {
        let key = self.rng.below(8);
        match self.rng.below(16) {
            0 => {
                let handle = self.endpoints.insert(key);
                self.left.extend(self.handles.insert(key, (handle, 0)).map(|(handle, _)| handle));
            }
            1 => {
                self.endpoints.remove(key);
                self.left.extend(self.handles.remove(&key).map(|(handle, _)| handle));
            }
            2 => {
                if let Some((mut handle, _)) = self.handles.remove(&key) {
                    handle.send_error("lost");
                    self.left.push(handle);
                }
            }
            3..6 => {
                let allowed = u64::from(self.rng.below(3));
                if let Some((handle, room)) = self.handles.get_mut(&key) {
                    handle.allow(allowed);
                    *room = allowed;
                }
            }
            6..11 => self.request(),
            11..13 => self.answer(),
            13 => {
                if let Some(any) = self.any_running() {
                    drop(self.running.swap_remove(any));
                }
            }
            _ => self.poll_responses(),
        }
    }

    fn any_running(&mut self) -> Option<usize> {
        let running = self.running.len() as u32;
        (running > 0).then(|| self.rng.below(running) as usize)
    }

    fn request(&mut self) {
        match self.svc.enter(|cx, mut svc| svc.poll_ready(cx)) {
            Poll::Ready(ready) => {
                ready.unwrap_or_else(|e| panic!("{}: {e}", self.name));
                let key = u64::from(self.rng.below(5));
                self.running.push(task::spawn(self.svc.call(key)));
            }
            Poll::Pending => {
                // An endpoint with room would have been polled, and have made the balancer ready.
                let idle = self.handles.values().filter(|(_, room)| *room > 0).count();
                assert!(idle == 0 || self.svc.is_woken(), "{}: {idle} are ready", self.name);
            }
        }
        self.receive();
    }

    /// Collects the requests that endpoints got.
    fn receive(&mut self) {
        for (handle, room) in self.handles.values_mut() {
            while let Poll::Ready(Some((_, answer))) = task::spawn(handle.next_request()).poll() {
                *room = room.saturating_sub(1);
                self.asked.push(answer);
            }
        }
        for handle in &mut self.left {
            while let Poll::Ready(Some((_, answer))) = task::spawn(handle.next_request()).poll() {
                self.asked.push(answer);
            }
        }
    }

    fn answer(&mut self) {
        if let Some(answer) = self.asked.pop() {
            if self.rng.coin() { answer.send_response("ok") } else { answer.send_error("no") }
        }
    }

    fn poll_responses(&mut self) {
        self.running.retain_mut(|response| response.poll().is_pending());
    }

    fn check(&mut self) {
        let counted = self.svc.enter(|_, mut svc| svc.in_flight()) as usize;
        assert_eq!(counted, self.running.len(), "{}: in flight", self.name);
        assert!(self.svc.ready_len() <= self.svc.len(), "{}", self.name);
    }
}

#[test]
fn every_count_returns_to_zero() {
    rows::steer(async {
        for algorithm in rows::all() {
            for script in 0..40 {
                let mut world = World::new(algorithm, script);
                for _ in 0..400 {
                    world.step();
                    world.check();
                }
                while !world.asked.is_empty() {
                    world.answer();
                }
                world.poll_responses();
                world.check();
                world.running.clear();
                world.check();
            }
        }
    });
}
