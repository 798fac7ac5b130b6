//! A fleet that moves under load: thousands of Services, of which one in a hundred gets other endpoints each second.

use crate::network::with_pods;
use evenkeel_cluster::evenkeel::Evenkeel;
use evenkeel_cluster::load::request_for;
use evenkeel_cluster::server::{ADMIN, Server};
use evenkeel_cluster::slices::{Slices, pod};
use evenkeel_peers::own_addr;
use serde_json::Value;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Endpoints of each Service.
const ENDPOINTS: usize = 10;

/// Services that get requests.
const ASKED: usize = 100;

const CLIENTS: usize = 16;

/// Time between two requests of a client.
const PAUSE: Duration = Duration::from_millis(5);

/// Time of a measurement, without changes and with them.
const TIME: Duration = Duration::from_secs(60);

/// Objects that are written at a time.
const WRITERS: usize = 16;

/// Address of an endpoint: all of 10.240.0.0/12 is this machine's.
fn ip(service: usize, round: usize, number: usize) -> Ipv4Addr {
    let at = ((round % 8) << 17) + service * ENDPOINTS + number;
    Ipv4Addr::from(0x0af0_0000_u32 + u32::try_from(at).expect("it fits in the network"))
}

fn endpoints(service: usize, round: usize) -> Vec<Value> {
    (0..ENDPOINTS).map(|n| pod(&format!("s{service}-{round}-{n}"), &ip(service, round, n).to_string())).collect()
}

fn config(kubeconfig: &Path, addr: SocketAddr, services: usize) -> String {
    let mut text = format!(
        "version = 1\n[runtime]\nworkers = 1\n[discovery.kubernetes]\nkubeconfig = '{}'\nscope = 'namespace'\n[listener.web]\n\
         bind = ['{addr}']\n",
        kubeconfig.display()
    );
    for n in 0..services {
        let _ = write!(
            text,
            "[pool.s{n}]\ndiscover = {{ kubernetes = {{ service = 's{n}', namespace = 'shop', port = 'http' }} }}\n\
             [[route]]\nmatch = {{ host = ['s{n}.test'] }}\npool = 's{n}'\n"
        );
    }
    text
}

/// Writes slices, several at a time.
async fn write(slices: &Slices, round: usize, services: impl Iterator<Item = usize>) {
    let mut tasks = JoinSet::new();
    for service in services {
        if tasks.len() == WRITERS {
            tasks.join_next().await.expect("there are some").expect("it is written");
        }
        let slices = slices.clone();
        tasks.spawn(async move {
            slices.put(&format!("s{service}-1"), &format!("s{service}"), endpoints(service, round)).await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("it is written");
    }
}

/// Answers at every address of this machine.
async fn serve() {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 8080)).await.expect("the port is free");
    loop {
        let (mut stream, _) = listener.accept().await.expect("there are enough descriptors");
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(n) = stream.read(&mut buffer).await {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"pod\":\"x\"}";
                if n == 0 || stream.write_all(answer).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// Times of requests in milliseconds, sorted, and the failures, over some time.
async fn load(addr: SocketAddr, during: impl Future<Output = ()>) -> (Vec<f64>, Vec<String>) {
    let (times, failures) = (Arc::<Mutex<Vec<f64>>>::default(), Arc::<Mutex<Vec<String>>>::default());
    let ends = Arc::<AtomicBool>::default();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (times, failures, ends) = (times.clone(), failures.clone(), ends.clone());
        clients.spawn(async move {
            let (mut connection, mut next) = (None, client);
            while !ends.load(Relaxed) {
                next = (next + 7) % ASKED;
                let began = Instant::now();
                match request_for(addr, &format!("s{next}.test"), &mut connection).await {
                    Ok(_) => times.lock().expect("no panic").push(began.elapsed().as_secs_f64() * 1e3),
                    Err(error) => {
                        failures.lock().expect("no panic").push(error);
                        connection = None;
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
    during.await;
    ends.store(true, Relaxed);
    while clients.join_next().await.is_some() {}
    let mut all = std::mem::take(&mut *times.lock().expect("no panic"));
    all.sort_by(f64::total_cmp);
    let failures = std::mem::take(&mut *failures.lock().expect("no panic"));
    (all, failures)
}

/// Processor time of a process in seconds, and its memory in MiB.
fn used(pid: u32) -> (f64, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|text| text.parse::<f64>().unwrap_or_default()).sum();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let memory: f64 = memory.trim().trim_end_matches(" kB").parse().unwrap_or_default();
    (ticks / 100.0, memory / 1024.0)
}

#[test]
#[ignore = "takes three minutes: SERVICES=1000 [ELSEWHERE=1] EVENKEEL=PROGRAM cargo test -p evenkeel --test kubernetes -- --ignored --nocapture measure"]
fn measure_a_fleet_that_moves() {
    with_pods("10.240.0.0/12", measure);
}

async fn measure() {
    let services: usize = std::env::var("SERVICES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let program = std::env::var_os("EVENKEEL").map_or_else(|| env!("CARGO_BIN_EXE_evenkeel").into(), PathBuf::from);
    let server = Server::start().await.expect("it is installed");
    let slices = server.slices("shop").await;
    // What the API server and the writer cost alone: changes that evenkeel does not follow.
    let is_elsewhere = std::env::var_os("ELSEWHERE").is_some();
    let changed = if is_elsewhere { server.slices("elsewhere").await } else { slices.clone() };
    tokio::spawn(serve());
    write(&slices, 0, 0..services).await;

    let addr = own_addr();
    let config = config(&server.kubeconfig(ADMIN), addr, services);
    let began = Instant::now();
    let mut evenkeel = Evenkeel::begin(&program, &server.folder, "evenkeel", &config).expect("it begins");
    let last = format!("s{}.test", services - 1);
    while request_for(addr, &last, &mut None).await.is_err() {
        evenkeel.check().expect("it runs");
        assert!(began.elapsed() < Duration::from_secs(60), "{}", evenkeel.log_end());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let started = began.elapsed();
    let pid = evenkeel.pid().expect("it runs");

    let before = used(pid);
    let (quiet, failed_quiet) = load(addr, tokio::time::sleep(TIME)).await;
    let between = used(pid);
    let changes = async {
        let (mut round, mut at) = (0, 0);
        let each = (services / 100).max(1);
        let end = Instant::now() + TIME;
        let mut second = tokio::time::interval(Duration::from_secs(1));
        while Instant::now() < end {
            second.tick().await;
            round = 1 + at / services;
            write(&changed, round, (at..at + each).map(|service| service % services)).await;
            at += each;
        }
        round
    };
    let (moving, failed) = load(addr, async { _ = changes.await }).await;
    let after = used(pid);
    evenkeel.check().expect("it runs");
    let percentile = |times: &[f64], p: f64| times[((times.len() - 1) as f64 * p) as usize];
    println!(
        "{services} Services, {} endpoints: started in {started:.1?} with {:.0} MiB; quiet: {} requests, p50 {:.2} ms, p99 {:.2} ms, \
         {:.2} s of processor time; moving: {} requests, p50 {:.2} ms, p99 {:.2} ms, {:.2} s, {:.0} MiB",
        services * ENDPOINTS,
        before.1,
        quiet.len(),
        percentile(&quiet, 0.5),
        percentile(&quiet, 0.99),
        between.0 - before.0,
        moving.len(),
        percentile(&moving, 0.5),
        percentile(&moving, 0.99),
        after.0 - between.0,
        after.1
    );
    assert!(failed_quiet.is_empty() && failed.is_empty(), "{failed_quiet:?} {failed:?}: {}", evenkeel.log_end());
}
