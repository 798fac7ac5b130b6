//! Clients of a live case: requests at times drawn beforehand, independent of responses. Times are those of the case;
//! their work has the seed of a run.

use super::super::case::WORK_NS;
use super::cases::Row;
use crate::client::{self, Answer};
use crate::error::{Error, Result, While};
use crate::http::local;
use crate::wire::Wire;
use evenkeel_balance::Rng;
use evenkeel_balance::rng::mix;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until, timeout};

/// Maximum time that a client waits for a response.
const PATIENCE: Duration = Duration::from_secs(20);

/// Request, drawn beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Planned {
    at: Duration,
    work_us: u64,
    balancer: usize,
}

/// Draws the requests of a run: `load` times the rate of the row, to this many balancers at random.
fn plan(row: &Row, load: f64, balancers: usize, length: Duration, seed: u64) -> Vec<Planned> {
    let mut times = Rng::new(row.name.bytes().fold(1, |seed, byte| mix(seed ^ u64::from(byte))));
    let mut works = Rng::new(mix(seed ^ 0x11fe));
    let (law, rate) = (row.law.work(row.work_ms * 1e6 / WORK_NS), row.rate() * load);
    let (mut at, mut all) = (0.0, Vec::new());
    loop {
        at -= (1.0 - times.unit()).ln() / rate;
        if at >= length.as_secs_f64() {
            return all;
        }
        let work_us = law.draw(&mut works) / 1_000;
        let balancer = works.below_u64(balancers as u64) as usize;
        all.push(Planned { at: Duration::from_secs_f64(at), work_us, balancer });
    }
}

/// Sends the requests of a run to the balancers at these ports, and waits for the responses.
///
/// # Errors
/// More than a percent of the requests got no response.
pub fn run(row: &Row, load: f64, ports: &[u16], length: Duration, seed: u64) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.or_say(|| "no event loop".into())?;
    let planned = plan(row, load, ports.len(), length, seed);
    let count = planned.len();
    let lost = runtime.block_on(LocalSet::new().run_until(async {
        let idle: Rc<Vec<RefCell<Vec<Wire>>>> = Rc::new(ports.iter().map(|_| RefCell::default()).collect());
        let (begin, mut sent) = (Instant::now(), Vec::with_capacity(count));
        for request in planned {
            sleep_until(begin + request.at).await;
            let (idle, port) = (Rc::clone(&idle), ports[request.balancer]);
            sent.push(spawn_local(async move {
                let of = &idle[request.balancer];
                let answered = timeout(PATIENCE, exchange(of, port, request.work_us)).await;
                matches!(answered, Ok(Ok(())))
            }));
        }
        let mut lost = 0;
        for request in sent {
            lost += usize::from(!request.await.unwrap_or(false));
        }
        lost
    }));
    match lost * 100 > count {
        true => Err(Error::Refused(format!("{lost} of {count} requests of `{}` got no response", row.name))),
        false => Ok(()),
    }
}

/// Sends a request on an idle connection or a new one, which is kept.
async fn exchange(idle: &RefCell<Vec<Wire>>, port: u16, work_us: u64) -> std::io::Result<()> {
    let request = format!("GET / HTTP/1.1\r\nHost: lab.test\r\nX-Work-Us: {work_us}\r\n\r\n");
    let kept = idle.borrow_mut().pop();
    let mut wire = match kept {
        Some(wire) => wire,
        None => Wire::new(TcpStream::connect(local(port)).await?)?,
    };
    if let Answer::Whole { reusable: true, .. } = client::exchange(&mut wire, request.as_bytes(), &mut false).await? {
        idle.borrow_mut().push(wire);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::*;

    #[test]
    fn runs_have_the_same_times_and_other_work() {
        let (row, length) = (&cases::ALL[0], Duration::from_secs(10));
        let [one, two] = [1, 2].map(|seed| plan(row, 1.0, 1, length, seed));
        assert_eq!(one, plan(row, 1.0, 1, length, 1));
        let times = |of: &[Planned]| of.iter().map(|of| of.at).collect::<Vec<_>>();
        assert_eq!(times(&one), times(&two));
        assert_ne!(one, two);
        // A Poisson process of ten seconds: within 6 standard deviations.
        let meant = 10.0 * row.rate();
        assert!((one.len() as f64 - meant).abs() < 6.0 * meant.sqrt(), "{}", one.len());
        let mean_us = one.iter().map(|of| of.work_us as f64).sum::<f64>() / one.len() as f64;
        assert!((mean_us / 1e3 / row.work_ms - 1.0).abs() < 6.0 / meant.sqrt(), "{mean_us}");
    }
}
