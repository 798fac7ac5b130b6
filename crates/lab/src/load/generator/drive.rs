//! Sending of requests, all from a single thread. A client of a closed load keeps its connection; requests of an open
//! load use the idle connection that was used last, or a new connection.

use super::resolve::resolve;
use super::ticks::ring;
use super::{Outcome, Plan, tally::Tally};
use crate::client::{self, Answer};
use crate::clock;
use crate::error::{Error, Result, While};
use crate::rng::Rng;
use crate::wire::Wire;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::timeout;

/// Maximum time that a client waits for a complete answer.
const PATIENCE: Duration = Duration::from_secs(30);

struct Target {
    address: SocketAddr,
    path: String,
    /// DNS server and name to look up for each connection.
    resolve: Option<(SocketAddr, String)>,
    /// Idle connections of an open load.
    idle: RefCell<Vec<Wire>>,
}

impl Target {
    /// Parses a target such as `127.0.0.1:8080/x`.
    fn parse(text: &str, resolve: Option<&str>) -> Result<Target> {
        let wrong = || Error::Wrong(format!("`{text}` is not an address, a port and a path, as 127.0.0.1:8080/x"));
        let (address, path) = text.split_once('/').ok_or_else(wrong)?;
        let resolve = resolve.map(|text| {
            let wrong =
                || Error::Wrong(format!("`{text}` is not a server and a name, as 127.0.0.1:53/www.example.com"));
            let (server, name) = text.split_once('/').ok_or_else(wrong)?;
            Ok::<_, Error>((server.parse().map_err(|_| wrong())?, name.to_owned()))
        });
        let (address, path) = (address.parse().map_err(|_| wrong())?, format!("/{path}"));
        Ok(Target { address, path, resolve: resolve.transpose()?, idle: RefCell::default() })
    }

    /// Sends a request. Returns the connection if it is reusable, and the failure unless the status was 200.
    async fn ask(&self, kept: Option<Wire>, work: Option<u64>, fresh: bool) -> (Option<Wire>, Option<String>) {
        let asked = timeout(PATIENCE, self.ask_patiently(kept, work, fresh)).await;
        asked.unwrap_or_else(|_| (None, Some("late".into())))
    }

    async fn connect(&self) -> std::io::Result<Wire> {
        let address = match &self.resolve {
            Some((server, name)) => {
                let id = clock::now_ns() as u16; // only has to differ from recent ids
                SocketAddr::from((resolve(*server, name, id).await?, self.address.port()))
            }
            None => self.address,
        };
        TcpStream::connect(address).await.and_then(Wire::new)
    }

    async fn ask_patiently(
        &self,
        kept: Option<Wire>,
        work: Option<u64>,
        fresh: bool,
    ) -> (Option<Wire>, Option<String>) {
        let connected = match kept {
            Some(wire) => Ok(wire),
            None => self.connect().await,
        };
        let request = match work {
            Some(work) => client::get(&format!("{}{work}", self.path), fresh),
            None => client::get(&self.path, fresh),
        };
        let Ok(mut wire) = connected else { return (None, Some("unreachable".into())) };
        match client::exchange(&mut wire, &request, &mut false).await {
            Err(_) => (None, Some("no answer".into())),
            Ok(Answer::Cut) => (None, Some("cut".into())),
            Ok(Answer::Whole { status, reusable, .. }) => {
                ((reusable && !fresh).then_some(wire), (status != 200).then(|| status.to_string()))
            }
        }
    }
}

/// Sends the load and returns its results.
///
/// # Errors
/// An address is malformed, or the system refuses a timer.
pub fn drive(plan: &Plan) -> Result<Outcome> {
    let targets: Rc<[Target]> = plan
        .targets
        .iter()
        .map(|text| Target::parse(text, plan.resolve.as_deref()))
        .collect::<Result<Vec<_>>>()?
        .into();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.or_say(|| "no event loop".into())?;
    let warm_up_ns = clock::ns(Duration::from_secs_f64(plan.warm_up.max(0.0)));
    let run = Rc::new(Run { targets, tally: RefCell::new(Tally::new(warm_up_ns)), begin_ns: clock::now_ns() });
    let local = LocalSet::new();
    let over_ns = runtime.block_on(local.run_until(async {
        match (plan.clients, plan.rate) {
            (Some(clients), _) => run.closed(plan, clients).await,
            (None, rate) => run.open(plan, rate.unwrap_or(1.0)).await,
        }
    }))?;
    drop(local);
    let run = Rc::into_inner(run).ok_or_else(|| Error::Wrong("a client is left".into()))?;
    Ok(run.tally.into_inner().outcome(over_ns))
}

struct Run {
    targets: Rc<[Target]>,
    tally: RefCell<Tally>,
    begin_ns: u64,
}

impl Run {
    /// Nanoseconds since the start of the load.
    fn now(&self) -> u64 {
        clock::now_ns() - self.begin_ns
    }

    /// Runs a closed load. Returns the time at which the last request ended.
    async fn closed(self: &Rc<Self>, plan: &Plan, clients: u32) -> Result<u64> {
        let requests = plan.requests.unwrap_or(u64::MAX);
        let until = plan.seconds.map_or(u64::MAX, |seconds| clock::ns(Duration::from_secs_f64(seconds)));
        let fresh = plan.fresh;
        let client = |number: u32| {
            let (run, mean_us) = (self.clone(), plan.work_us);
            let mut rng = Rng::new(plan.seed ^ u64::from(number) << 32);
            spawn_local(async move {
                let target = &run.targets[number as usize % run.targets.len()];
                let (mut kept, mut sent) = (None, 0);
                while sent < requests && run.now() < until {
                    let meant = run.now();
                    let failure;
                    (kept, failure) = target.ask(kept, mean_us.map(|mean| exponential(&mut rng, mean)), fresh).await;
                    let failed = failure.is_some();
                    let done = run.now();
                    // Requests in flight at the end do not count, as in other generators.
                    if done < until {
                        run.tally.borrow_mut().add(meant, done, failure);
                    }
                    if failed {
                        // A short pause, or a server that refuses at once would be flooded.
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    sent += 1;
                }
            })
        };
        let clients: Vec<_> = (0..clients).map(client).collect();
        for client in clients {
            client.await.map_err(|error| Error::Wrong(format!("a client failed: {error}")))?;
        }
        Ok(self.now().min(until))
    }

    /// Runs an open load. Returns its end: after the given seconds, or when the last request was sent.
    async fn open(self: &Rc<Self>, plan: &Plan, rate: f64) -> Result<u64> {
        let mut rng = Rng::new(plan.seed);
        let until = clock::ns(Duration::from_secs_f64(plan.seconds.unwrap_or(f64::from(u16::MAX))));
        let most = plan.requests.map_or(usize::MAX, |most| most as usize);
        let mut at = 0_u64;
        let next = || {
            at += exponential(&mut rng, 1e9 / rate);
            let target = rng.below(self.targets.len());
            let work = plan.work_us.map(|mean| exponential(&mut rng, mean));
            (at < until).then_some((at, target, work))
        };
        let meant: Vec<(u64, usize, Option<u64>)> = std::iter::from_fn(next).take(most).collect();
        let over = plan.seconds.map_or_else(|| meant.last().map_or(0, |last| last.0), |_| until);
        let mut bell = ring(meant.iter().map(|(at, ..)| self.begin_ns + at).collect())?;
        let (mut asked, mut rung) = (Vec::new(), [0; 64]);
        while asked.len() < meant.len() {
            let due = bell.read(&mut rung).await.or_say(|| "a timer failed".into())?;
            for (at, target, work) in meant[asked.len()..].iter().copied().take(due) {
                let (run, fresh) = (self.clone(), plan.fresh);
                asked.push(spawn_local(async move {
                    let target = &run.targets[target];
                    let kept = target.idle.borrow_mut().pop();
                    let (kept, failure) = target.ask(kept, work, fresh).await;
                    target.idle.borrow_mut().extend(kept);
                    let done = run.now();
                    run.tally.borrow_mut().add(at, done, failure);
                }));
            }
        }
        for request in asked {
            request.await.map_err(|error| Error::Wrong(format!("a request failed: {error}")))?;
        }
        Ok(over)
    }
}

/// Draws from the exponential distribution with this mean.
fn exponential(rng: &mut Rng, mean: f64) -> u64 {
    (-(1.0 - rng.unit()).ln() * mean) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_address_and_a_path() {
        let target = Target::parse("127.0.0.1:80/a/b", Some("127.0.0.1:53/x")).expect("it is one");
        assert_eq!(target.address.port(), 80);
        assert_eq!(target.path, "/a/b");
        for wrong in ["127.0.0.1:80", "localhost:80/", "127.0.0.1/x"] {
            assert!(Target::parse(wrong, None).is_err(), "{wrong}");
        }
    }
}
